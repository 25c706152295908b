"""The endpoint as its clients feel it: what HTTP adds to the first token, and what others' misbehaviour does.

`python -m benchmarks.http` starts `nanolm serve` as a process and asks it

1. for streams on a kept connection: the time to the first text, beside the engine's own for the same request, which the
   server's log says; the difference is HTTP, JSON, tokenizing and two threads;
2. for `/health` on a kept connection, while twelve clients send bodies of 256 KB, one behind the other;
3. for `/health` on new connections, while 300 sockets say nothing and the server may have 256 files open.
"""
