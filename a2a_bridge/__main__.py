"""`python -m a2a_bridge`: the command `a2a-bridge` by another name."""

from a2a_bridge.cli import main

if __name__ == "__main__":
    main()
