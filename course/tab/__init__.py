"""The exercises that need no torch, in a browser's tab: their pages, and the Python that checks them there."""
