"""A recorded load served by the student's own engine, beside the reference."""
