"""How a process of ours logs: JSON lines to stdout, or readable text on a terminal."""

import json
import logging
import sys
import time
from typing import Any

_STANDARD = set(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "taskName"),
    "color_message",  # uvicorn says everything twice
}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Take what a call passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record; an exception becomes one field with its trace."""
        line = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class ForPeople(logging.Formatter):
    """Readable text with the same content."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record, fields as key=value."""
        fields = "".join(f" {key}={value}" for key, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure_logging(level: int = logging.INFO) -> None:
    """Send every logger to stdout; called by entry points only."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(ForPeople() if sys.stdout.isatty() else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
