"""Your answers. A file here is the engine's file of the same name with the exercises taken out.

Only files with exercises live here; every other one is found among the engine's. Imports between them are relative,
so `exercises.speculative` works with your own functions wherever you have written them.
"""

from pathlib import Path

import nanolm

__path__.append(str(Path(nanolm.__file__).parent))
