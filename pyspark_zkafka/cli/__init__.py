"""The zkafka command."""


def main() -> None:
    """Run the command."""
