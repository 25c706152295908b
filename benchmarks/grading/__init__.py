"""A class of made-up students graded: the processor's seconds a submission, a run killed half-way, a cluster."""
