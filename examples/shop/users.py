"""The users of the shop and all that it knows about them, in SQLite. Shoal stores no passwords and no e-mail addresses of them."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from pathlib import Path
from typing import Any, NamedTuple

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
    id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE COLLATE NOCASE, name TEXT NOT NULL, password TEXT NOT NULL,
    member_id TEXT UNIQUE, is_staff INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS sessions (hash BLOB PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users);
CREATE TABLE IF NOT EXISTS seen_events (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS reviews (
    post_id TEXT PRIMARY KEY, author_id TEXT NOT NULL, product TEXT NOT NULL, stars INTEGER NOT NULL,
    UNIQUE (author_id, product));
CREATE TABLE IF NOT EXISTS news (
    id INTEGER PRIMARY KEY, member_id TEXT NOT NULL, text TEXT NOT NULL, points INTEGER NOT NULL);
"""
_hasher = PasswordHasher()


SESSION_COOKIE = "shop_session"


class User(NamedTuple):
    id: int
    email: str
    name: str
    member_id: str | None
    """The id of the member on Shoal; None until the user needs one."""
    is_staff: bool


class EmailTaken(Exception):
    """Another user has this address."""


class Database:
    """Any thread may call the methods."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_SCHEMA)
        self.lock = threading.RLock()
        """Held by a transaction."""

    def rows(self, sql: str, *values: object) -> list[Any]:
        with self.lock:
            return self._connection.execute(sql, values).fetchall()

    def sign_up(self, email: str, name: str, password: str, *, is_staff: bool = False) -> User:
        """Create a user. Raises `EmailTaken`."""
        hashed = _hasher.hash(password)
        try:
            ((id_,),) = self.rows(
                "INSERT INTO users (email, name, password, is_staff) VALUES (?, ?, ?, ?) RETURNING id",
                email,
                name,
                hashed,
                is_staff,
            )
        except sqlite3.IntegrityError:
            raise EmailTaken from None
        return User(id_, email, name, None, is_staff)

    def log_in(self, email: str, password: str) -> User | None:
        """Return the user with this address and password."""
        found = self.rows("SELECT id, email, name, member_id, is_staff, password FROM users WHERE email = ?", email)
        try:
            # An unknown address takes as long as a wrong password.
            _hasher.verify(found[0][5] if found else _NO_PASSWORD, password)
        except VerificationError:
            return None
        return User(*found[0][:5])

    def start_session(self, user: User) -> str:
        """Return the secret of a new session. Only its hash is stored."""
        secret = secrets.token_urlsafe(32)
        self.rows("INSERT INTO sessions VALUES (?, ?)", _hash(secret), user.id)
        return secret

    def user_of(self, session: str) -> User | None:
        found = self.rows(
            "SELECT id, email, name, member_id, is_staff FROM users JOIN sessions ON user_id = id WHERE hash = ?",
            _hash(session),
        )
        return User(*found[0]) if found else None

    def end_session(self, session: str) -> None:
        self.rows("DELETE FROM sessions WHERE hash = ?", _hash(session))

    def name_of(self, member_id: str) -> str:
        found = self.rows("SELECT name FROM users WHERE member_id = ?", member_id)
        return str(found[0][0]) if found else "Somebody"

    def store_member(self, user: User, member_id: str) -> None:
        self.rows("UPDATE users SET member_id = ? WHERE id = ?", member_id, user.id)


_NO_PASSWORD = _hasher.hash(secrets.token_urlsafe())


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode()).digest()
