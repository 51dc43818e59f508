"""A person at a terminal: `terminal_chat.py BINARY FOLDER` talks with the agent `echo` of the host's binary in pseudo-terminals.

It ends with the first sentence that does not come, and what was shown until then.
"""

import os
import pty
import select
import subprocess
import sys
import time

BINARY, FOLDER = sys.argv[1:]
PATIENCE = 60
os.environ["NO_COLOR"] = "1"


class Chat:
    """A chat in a terminal of its own."""

    def __init__(self, name):
        self.store = os.path.join(FOLDER, name + ".db")
        arguments = [BINARY, "chat", "--agent", "echo", "--session", "s", "--store", self.store]
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execv(BINARY, arguments)
        self.shown = ""

    def more(self):
        """What is shown next; nothing when the process has ended."""
        if not select.select([self.terminal], [], [], PATIENCE)[0]:
            sys.exit(f"nothing was shown for {PATIENCE} s after {self.shown!r}")
        try:
            return os.read(self.terminal, 65536).decode(errors="replace")
        except OSError:
            return ""

    def sees(self, text):
        """Waits for a text, and passes over what stands before it."""
        while text not in self.shown:
            more = self.more()
            if not more:
                sys.exit(f"it ended, and {text!r} was not shown: {self.shown!r}")
            self.shown += more
        self.shown = self.shown.split(text, 1)[1]

    def types(self, text):
        os.write(self.terminal, text.encode())

    def ends(self, code):
        while more := self.more():
            self.shown += more
        found = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        if found != code:
            sys.exit(f"it ended with {found} and not with {code}: {self.shown!r}")
        os.close(self.terminal)


def command(*arguments):
    ended = subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=True)
    return ended.stdout


def stopped_in_a_question():
    chat = Chat("stopped")
    chat.sees("> ")
    chat.types("shred letters\n")
    chat.sees("yes or no? ")
    chat.types("\x03")
    chat.sees("the session continues where it is")
    chat.ends(130)
    back = Chat("stopped")
    back.sees("yes or no? ")
    back.types("y\n")
    back.sees("letters is gone")
    back.sees("> ")
    back.types("\x04")
    back.ends(0)


def answered_elsewhere():
    chat = Chat("elsewhere")
    chat.sees("> ")
    chat.types("shred letters\n")
    chat.sees("yes or no? ")
    run = command("runs", "list", "--store", chat.store).split()[0]
    command("runs", "approve", run, "tool#1.shred", "--by", "ada", "--store", chat.store)
    # Nothing was typed until now.
    chat.sees("answered by ada")
    chat.sees("letters is gone")
    chat.types("n\n")
    chat.sees("left out, since nothing asks any more: n")
    chat.sees("> ")
    chat.types("hello\n")
    chat.sees("\r\nhello")
    chat.sees("> ")
    chat.types("\x04")
    chat.ends(0)


def closed():
    chat = Chat("closed")
    chat.sees("> ")
    chat.types("shred letters\n")
    chat.sees("yes or no? ")
    os.close(chat.terminal)
    begin = time.monotonic()
    while os.waitpid(chat.process, os.WNOHANG)[0] == 0:
        if time.monotonic() - begin > PATIENCE:
            os.kill(chat.process, 9)
            sys.exit("it continues without its terminal")
        time.sleep(0.01)
    back = Chat("closed")
    back.sees("yes or no? ")
    back.types("no\n")
    back.sees("> ")
    back.types("\x04")
    back.ends(0)


for story in [stopped_in_a_question, answered_elsewhere, closed]:
    story()
    print(story.__name__, "ok", flush=True)
