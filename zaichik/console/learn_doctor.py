"""`zaichik learn doctor`."""
import argparse
from rich.console import Console
async def run(arguments: argparse.Namespace, console: Console) -> int:
    return 0
