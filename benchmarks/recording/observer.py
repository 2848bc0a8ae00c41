"""Answer the trials of `candlelight perception experiment` in place of a browser."""

import json
import signal
import threading
import webbrowser
from pathlib import Path
from urllib.request import Request, urlopen


def observe(most: int) -> None:
    """Take the place of the browser: answer the next trials, then load the end of the page or press Ctrl-C.

    The pictures of the first trial and the end of the page are written to files.

    Args:
        most: number of trials to answer.
    """

    def answer(url: str) -> None:
        def call(place: str, reply: dict[str, object] | None = None) -> bytes:
            body = None if reply is None else json.dumps(reply).encode()
            with urlopen(Request(url + place, body, {"Content-Type": "application/json"}), timeout=30) as got:
                return bytes(got.read())

        state = json.loads(call("state"))
        for side in ("left", "right"):
            Path(f"{side}.png").write_bytes(call(f"picture/{state['trial']}/{side}"))
        for _ in range(min(most, state["total"] - state["trial"])):
            reply = {"trial": state["trial"], "side": "left", "seconds": 1.0}
            state = json.loads(call("answer", reply))
        if state["trial"] < state["total"]:
            signal.raise_signal(signal.SIGINT)
        else:
            Path("end.json").write_bytes(call("end"))

    def begin(url: str) -> bool:
        threading.Thread(target=answer, args=(url,), daemon=True).start()
        return True

    webbrowser.open = begin  # type: ignore[assignment]
