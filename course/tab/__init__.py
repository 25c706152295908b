"""The exercises that need no torch, answered and checked in a browser's tab: their pages, and the Python behind them."""
