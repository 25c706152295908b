"""A recorded load served by the student's own engine, under goals that the machine sets, beside the reference."""
