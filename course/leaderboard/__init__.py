"""Capstones of a class: one file each to hand in, served again under one load, and ranked."""
