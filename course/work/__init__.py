"""A student's work: copies of the notebooks, and how answers in them and in exercises/ outlive a new version.

It knows the lessons as they are built. It does not know how: nothing here reads solutions/.
"""
