"""A kernel of this interpreter, spoken to as a front end does: cells and widget messages."""

import time
from contextlib import contextmanager

from jupyter_client.manager import start_new_kernel


@contextmanager
def start_kernel():
    """A new kernel, ended afterwards."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield Kernel(client, manager)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


class Kernel:
    """Run cells, send messages to widgets, press the stop button."""

    def __init__(self, client, manager):
        self.client, self.manager, self._metadata = client, manager, {}
        self._message = client.session.msg
        client.session.msg = self._named

    def _named(self, kind, *args, **options):
        options["metadata"] = {**(options.get("metadata") or {}), **self._metadata}
        return self._message(kind, *args, **options)

    def run(self, code, **metadata):
        """What the cell printed; metadata: what the front end says of the cell."""
        printed = []
        self._metadata = metadata
        try:
            reply = self.client.execute_interactive(
                code, timeout=120, output_hook=lambda m: printed.append(m["content"].get("text", "")), allow_stdin=False
            )
        finally:
            self._metadata = {}
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()

    def interrupt(self):
        """What the stop button of a notebook does."""
        self.manager.interrupt_kernel()

    def send(self, comm, **data):
        """Send a widget message to the widget with this model id."""
        content = {"comm_id": comm, "data": data}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", content))

    def move(self, comm, value):
        """Move a control, as its view on a page does."""
        self.send(comm, method="update", state={"value": value}, buffer_paths=[])

    def click(self, comm):
        """Press a button, as its view on a page does."""
        self.send(comm, method="custom", content={"event": "click"})

    def wait(self, code):
        """Ask until the expression is true."""
        for _ in range(300):
            if self.run(f"print({code})") == "True":
                return
            time.sleep(0.1)
        raise AssertionError(f"never true: {code}")
