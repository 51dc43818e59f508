"""The model of all these agents: a function from a conversation to the next turn."""

import re
import socket


def turn(texts, result=None):
    """Returns the next turn after the user's texts and the result of the last call: a text, or the name and arguments of a tool."""
    words = texts[-1].split()
    if result is not None:
        return f"done: {result}"
    if words[0] == "add":
        return "add", {"a": int(words[1]), "b": int(words[2])}
    if words[0] == "delete":
        return "delete", {"path": words[1]}
    return f"turn {len(texts)}: {texts[-1]}"


def chunks(texts, turn):
    """Returns the chunks in which a text is streamed."""
    return [f"{n} " for n in range(100)] if texts[-1] == "slow" else re.findall(r"\S+\s*", turn)


def pause(texts):
    """Returns the seconds before each chunk."""
    return 0.05 if texts[-1] == "slow" else 0


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def delete(path: str) -> str:
    """Deletes a file. Needs an approval."""
    return f"deleted {path}"


def listener():
    """Returns a socket that listens on a free port, and the port."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    return bound, bound.getsockname()[1]
