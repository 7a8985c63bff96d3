"""Servers under test, one process each. They print a line `ready http=… grpc=…` and stop on SIGTERM."""
