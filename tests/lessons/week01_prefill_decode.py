from .literals import Derived, Given
TABLE = []
