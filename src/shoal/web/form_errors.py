"""Translated error messages for the fields of a form.

Commands and queries raise errors with an English message that contains numbers. `COMPLAINTS` lists the messages that a
form can cause, with a placeholder for each number, so that a catalog can translate them. A message that is not listed
is shown in English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from shoal.core.errors import Disallowed, InvalidInput, Rejected, Reserved, ShoalError, Taken
from shoal.http.errors import Blank, ValidationErrors
from shoal.i18n import Translated

COMPLAINTS = (
    # Messages about logging in.
    "This server does not accept passwords: log in with a login provider or a passkey",
    "This account has no password: confirm in the web app that it is yours",
    # Messages about any field.
    "This has %(actual)s characters; the maximum is %(most)s",
    "This has %(actual)s bytes; the maximum is %(most)s",
    "at most %(most)s combining marks in a row",
    "This contains a character that is not allowed: %(character)s",
    "This must have at most %(most)s characters",
    "this must not be empty",
    "This must have at most %(most)s items",
    "This must be %(least)s or more",
    "This must be %(most)s or less",
    "This can't be blank",
    "the request body may have at most %(most)s bytes",
    "at most %(most)s fields may be sent",
    "form fields other than files may have at most %(most)s bytes in total",
    "Record not found",
    "Log in, then send the files again: they were not stored",
    "Too many requests",
    "The server is busy; try again in a moment",
    # Messages about pictures and clips.
    "the file is empty: a picture was expected",
    "this file is damaged: it cannot be read",
    "this file is incomplete: it ends after %(end)s of %(length)s seconds",
    "the type of this file is not supported: use %(types)s",
    "this server accepts no video or audio: use %(types)s",
    "the codec %(codec)s is not accepted: use H.264 and AAC",
    "the converted file would have more than %(most)s",
    "converting this file takes more than %(most)s of memory",
    "this file has neither video nor audio",
    "this file is neither video nor audio",
    "this picture is incomplete or damaged and cannot be decoded",
    "this picture could not be decoded within the limits: %(limits)s",
    "a picture of %(size)s is too large: the maximum is %(most)s",
    "a picture of %(width)s x %(height)s pixels is too large: the maximum is %(most)s million pixels",
    "a clip of %(size)s is too large: the maximum is %(most)s",
    "a clip of %(length)s seconds is too long: the maximum is %(most)s seconds",
    "a video of %(width)s x %(height)s pixels is too large: the maximum is %(most)s million pixels",
    "a video of %(width)s x %(height)s pixels is too small: scaled to fit into a square of %(edge)s pixels,"
    " it must have at least %(least)s pixels in each direction",
    "a video of %(rate)s frames per second is too fast: the maximum is %(most)s",
    "converting this clip took longer than %(most)s seconds",
    "this server cannot process video or audio",
    "video and audio cannot be processed right now",
    "pictures cannot be decoded right now",
    "too many pictures are being processed: try again in a few seconds",
    "the media store does not answer",
    "the server is stopping",
    "there is no such file",
    "the object is being changed by another request; try again",
    "Your media use %(used)s of your %(most)s of storage. Delete some first",
    "At most %(most)s uploads can run at the same time",
    "The server is processing too many uploads",
    "Cannot attach files that have not finished processing. Try again in a moment!",
    "Cannot attach a video to a post that already contains images",
    "Media attachment is currently used by a status",
    "Media attachment is currently used by a scheduled status",
    # Messages about passkeys.
    "The device did not make a passkey for this account in time; please try again",
    "This device has a passkey for this account already",
    "You have the maximum number of passkeys: remove one first",
    "This passkey is your second factor: add another one first or turn off two-factor authentication",
    "This is your only way to log in. Add a passkey or another provider first.",
    # Messages about archives of other networks.
    "unknown archive format; upload the ZIP of Mastodon, Instagram (as JSON), X or Shoal, pixelfed-statuses.json of Pixelfed,"
    " or the CAR file of Bluesky",
    "this Instagram archive has HTML pages only: request it again from Instagram in JSON format",
    "this archive is damaged or protected by a password",
    "this archive uses an unsupported compression: repack it as a ZIP with Deflate",
    "this archive lacks %(name)s",
    "%(name)s has more than %(most)s bytes",
    "an archive may contain at most %(most)s files",
    "the documents of an archive may have at most %(most)s bytes together",
    "a tar may contain at most %(most)s bytes",
    "a document in this archive is damaged: it is not JSON",
    "an item in a document may have at most %(most)s bytes",
    "a document may have at most %(most)s levels of nesting",
    "actor.json in this archive does not have Mastodon's format",
    "profile.json in this export does not have Shoal's format",
    "follows.csv of this export is damaged",
    "this Bluesky export is damaged and cannot be read",
    "a Bluesky export may have at most %(most)s blocks",
    "this Bluesky export repeats its records too often; download it again",
    "you have already uploaded an archive: discard it first",
    "Many archives are being imported; try again later",
    "the disk has no room for the archive",
    "an internal error occurred; see the server's log",
    "the server stopped several times while it imported this archive",
    "the server was stopped while it read this archive; discard the archive and upload it again",
    "this archive could not be read within %(seconds)s seconds and %(memory)s MiB of memory",
    "archives cannot be read right now",
    "This server does not import archives",
    # Messages about posts and polls.
    "a post has pictures or a poll, not both",
    "a post can have up to %(most)s photos (got %(actual)s)",
    "an edit can only reduce the visibility, and this post is %(now)s already",
    "Options can't be blank",
    "Options must have more than one item",
    "Options can't contain more than %(most)s items",
    "Options contain duplicate items",
    "Expires at is too far into the future",
    "Expires at is too soon",
    "The poll has already ended",
    "You cannot vote in your own polls",
    "The chosen vote option does not exist",
    "You have already voted on this poll",
    "Scheduled at must be at least 5 minutes in the future",
    "Scheduled at is more than ten years in the future",
    "You have exceeded the limit of %(most)s scheduled posts",
    "Your account was suspended",
    "A post or file that this post refers to no longer exists",
    "This post was not published on schedule",
    "latitude is -90 to 90 and longitude -180 to 180 degrees",
    "enter latitude and longitude in degrees, such as 45.44, 12.32",
    "unknown town",
    "unknown town. Did you mean: %(towns)s?",
    "unknown town or country",
    "unknown town or country. Did you mean: %(towns)s?",
    "this server does not know the names of places",
    "deliveries are %(seconds)s seconds behind; try again in a moment",
    # Messages about content that is checked before it is public.
    "this must be an https URL without user name and fragment",
    "at most %(most)s characters, all printable ASCII without spaces",
    "This is not public yet: it is waiting for approval by a moderator",
    "The moderation of this server does not allow this",
    "You have %(most)s posts and changes that are waiting for approval",
    "This was approved already",
    "This was rejected already",
    "The account of the author was suspended",
    "A post or file that this needs no longer exists: reject it",
    "The files have been changed since",
    "The post has been edited since: reject this edit",
    "The profile has been changed since: reject this change",
    "The description has been changed since: reject this one",
    # Messages about reactions, pins and follows.
    "must be a single emoji",
    "You can react to a post with at most %(most)s emoji",
    "A post cannot have more than %(most)s different emoji reactions",
    "a share cannot be pinned",
    "Someone else's post cannot be pinned",
    "Posts that are only visible to mentioned users cannot be pinned",
    "You have already pinned the maximum number of posts",
    "You must be already following the account you want to endorse",
    "You can follow at most %(most)s people, or 10 percent more than follow you",
    "a member follows at most %(most)s tags",
    # Messages about lists, filters, tags and albums.
    "Title can't be blank",
    "at most %(most)s lists",
    "a list has at most %(most)s members",
    "Context must be at least one of home, notifications, public, thread and account",
    "Keyword can't be blank",
    "a filter has at most %(most)s keywords",
    "the filters of a member have at most %(most)s keywords together",
    "a member has at most %(most)s filters",
    "a filter has at most %(most)s posts",
    "at most %(most)s tags can be featured",
    "a tag is 1 to %(most)s letters, digits and underscores, and not digits alone",
    "must be a tag of the post: %(tags)s",
    "feedback on your own post must be about one of its tags",
    "at most %(most)s albums",
    "an album has at most %(most)s photos",
    "this post has no photos",
    "photos of direct messages cannot be added to an album",
    # Messages about invitations.
    "You cannot invite people to this server",
    "at most %(most)s open invitations",
    "an invitation is for 1 to %(most)s people",
    "an invitation is valid for an hour to %(days)s days",
    "only moderators and admins can create invitations with unlimited uses",
    "only moderators and admins can create invitations that never expire",
    "There is no such invitation",
    "This invitation has expired",
    "This invitation is used up",
    # Messages about accounts and reports.
    "the current password is wrong",
    "the name or the password is wrong",
    "Too many passwords are being checked; try again in a moment",
    "Too much of your content is being checked; try again in a moment",
    "Too many wrong passwords",
    "this member has no login credentials",
    "this account has no e-mail address",
    "an e-mail address is name@domain, at most %(most)s characters",
    "at most %(most)s fields",
    "at most %(most)s accounts",
    "at most %(most)s bytes, not %(actual)s",
    "unknown follow list format; upload following_accounts.csv of Mastodon, following.json of Pixelfed or Instagram,"
    " following.js of X, follows of Bluesky as JSON, or a list of handles as CSV or JSON",
    "a report may include at most %(most)s posts",
    "Rule ids does not reference valid rules",
    "You asked for this account to be deleted",
    "This account is not scheduled for deletion",
    "This account is being deleted",
    "This member requested the deletion of their account: only they can cancel it",
    "the password is wrong",
    "Your login is currently pending approval",
    "This address was changed too often; try again in a week",
    "Two-factor authentication is already on",
    "Two-factor authentication is off",
    "Moderators and admins need a second factor here: turn it on in the settings of the web app",
    "Your login is missing a confirmed e-mail address",
    "Your login is currently disabled",
    "Your IP address has no access to this server",
    # Messages in moderators' forms.
    "This member is not pending approval",
    "This member is pending approval: approve or reject them",
    "This action is not allowed",
    "This server does not accept new members",
    "This server does not accept new members from your IP address",
    "Domain is not a valid domain name",
    "Ip is not an IP address or address range such as 203.0.113.0/24",
    "The list of blocks already has %(most)s entries, which is the maximum",
    # Messages about moderation rules and bulk actions.
    "%(word)s has neither letters nor digits",
    "%(domain)s is not a domain, such as example.org",
    "must be 0 to %(most)s (got %(actual)s)",
    "at most %(most)s (got %(actual)s)",
    "at least one of %(names)s",
    "must be before until",
    "a rule that rejects needs a reason for the author",
    "do a dry run of rule %(rule)s before you arm it: there is none of its current conditions",
    "do a dry run of rule %(rule)s again: the last one is older than %(days)s days",
    "there are %(most)s moderation rules already, which is the maximum",
    "all moderation rules together have at most %(most)s bytes (got %(actual)s): use fewer words",
    "this file has no picture to compare with",
    "this preview is older than a day: create another one",
    "this action is a preview: apply it first",
    "this action is being applied: try again when it is done",
    "this action is being undone",
    "this action was undone: create another preview",
    "expected an https URL without user name and fragment (got %(given)s)",
    "at most %(most)s characters, all printable ASCII without spaces",
    "%(given)s is not one of %(known)s",
    "a webhook with this URL, these types and this filter exists already",
    "expected conditions such as author_id=123, separated by commas (got %(given)s)",
    "at most %(most)s conditions (got %(actual)s)",
    "deletions have no fields to compare",
    "%(type)s has no field %(name)s; it has %(known)s",
    "%(name)s is one of %(known)s (got %(given)s)",
    "%(name)s is a number (got %(given)s)",
    "%(given)s is not a tag",
    "%(name)s is private data: allow private data",
    "there are %(most)s webhooks already, which is the maximum",
    "%(most)s secrets of this webhook are valid, which is the maximum: rotate with a grace of 0, or wait",
    "the network, or one of its stores, keeps no event log: set event_log = on",
    "reports and moderation actions are private data: allow private data",
    "Mastodon's format contains private data: allow private data",
    # Messages about named feeds. The first ones come from the JSON decoder.
    "Object missing required field %(name)s",
    "Object contains unknown field %(name)s; fields are %(known)s",
    "Object contains unknown field %(name)s",
    "Invalid enum value %(given)s; allowed are %(known)s",
    "Invalid value %(given)s; allowed are %(known)s",
    "Invalid value %(given)s",
    "Expected %(expected)s, got %(given)s",
    "Expected array of length >= %(least)s",
    "Expected array of length <= %(most)s",
    "Expected str of length >= %(least)s",
    "Expected str of length <= %(most)s",
    "Expected object of length <= %(most)s",
    "Expected str matching regex %(pattern)s",
    "Expected %(type)s >= %(least)s",
    "Expected %(type)s <= %(most)s",
    "Input data was truncated",
    "invalid character",
    "trailing characters",
    "object keys must be strings",
    "expected a number from %(least)s to %(most)s (got %(given)s)",
    "expected true or false (got %(given)s)",
    "expected one of %(allowed)s (got %(given)s)",
    "expected at most %(most)s characters (got %(given)s)",
    "a page takes up to %(total)s reads, and at most %(most)s are allowed; %(part)s takes the most (%(number)s)",
    "a page takes up to %(total)s candidates, and at most %(most)s are allowed; %(part)s takes the most (%(number)s)",
    "at most %(most)s, with those of contained feeds (got %(actual)s)",
    "each source may be given once",
    "must be above minimum_age_hours",
    "need an order by expression, which uses them",
    "needs an order by recipe or expression, such as -age_hours, because entries change places",
    "needs exactly one of kinds (got %(actual)s)",
    "expected codes such as en or de (got %(given)s)",
    "a tag is 1 to %(most)s letters, digits and underscores, and not digits alone (got %(given)s)",
    "expected a user name of letters, digits and _ (got %(given)s)",
    "expected the id of a list (got %(given)s)",
    "expected the id of one of your lists (got %(given)s)",
    "expected 1 to 30 lower-case letters, digits and underscores",
    "the default must be between minimum and maximum",
    "the default must be one of the choices",
    "there is no feed %(name)s",
    "there is no kind %(name)s",
    "there is no member %(name)s",
    "there is no reaction %(name)s",
    "a feed cannot contain itself",
    "the feed %(name)s contains feeds itself",
    "the feed %(name)s, which it contains, is not shared",
    "a feed with a list cannot be shared, because it would reveal the members of the list",
    "follow the feed first",
    "your own feeds are among your lists already",
    "at most %(most)s feeds",
    "at most %(most)s followed feeds",
    "at most %(most)s characters (got %(actual)s)",
    "at most %(most)s summands (got %(actual)s)",
    "at position %(at)s: unknown name %(name)s; terms are %(terms)s; functions are %(functions)s",
    "at position %(at)s: unknown parameter %(name)s; allowed are %(allowed)s",
    "at position %(at)s: unknown parameter %(name)s; the feed declares no parameters",
    "at position %(at)s: %(sign)s is not allowed",
    "at position %(at)s: expected %(expected)s (got %(given)s)",
    "at position %(at)s: expected %(expected)s",
    "at position %(at)s: an expression has at most %(most)s operations and values",
    "at position %(at)s: at most %(most)s levels of parentheses",
    "at position %(at)s: a text has at most %(most)s characters (got %(actual)s)",
    "at position %(at)s: %(function)s takes %(allowed)s arguments (got %(actual)s)",
    "at position %(at)s: has compares with a text in quotes or a parameter",
    "expected %(sign)s",
)
"""Error messages without the field name that precedes them in API responses."""
_FIGURE = re.compile(r"%\\\((\w+)\\\)s")


def complaint(words: Translated, text: str) -> str:
    for pattern, message in _patterns():
        if found := pattern.fullmatch(text):
            return words.text(message) % found.groupdict()
    return words.text(text)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return pairs of a regular expression and its message of `COMPLAINTS`. Its groups match the inserted values."""
    return tuple((re.compile(_FIGURE.sub(r"(?P<\1>.+)", re.escape(message))), message) for message in COMPLAINTS)


Wrong = Mapping[str, str]
"""Error messages by field name; "" is the key of a message that belongs to no field."""
RIGHT: Wrong = MappingProxyType({})


def wrong_of(words: Translated, error: InvalidInput, **known: str) -> dict[str, str]:
    """Return the error messages by form field. For a field in `known`, the message in `known` replaces the error's message."""
    found = error.found if isinstance(error, ValidationErrors) else (error,)
    return {field_error.field or "": _message(words, field_error, known) for field_error in found}


def _message(words: Translated, error: InvalidInput, known: Mapping[str, str]) -> str:
    _ = words.text
    match error:
        case Taken(field="email"):
            return _("This address is already in use. Log in or use another address.")
        case Taken():
            return _("This name is taken. Choose another one.")
        case Blank():
            return _("This field is required.")
        case Disallowed():
            return _("Addresses of this provider are not accepted.")
        case Reserved():
            return _("This name is reserved. Choose another one.")
        case Rejected():
            return error_text(words, error)
    return known.get(error.field or "") or error_text(words, error)


def error_text(words: Translated, error: ShoalError | None, field: str = "") -> str:
    """Return the error as a sentence in the viewer's language, without the name of the field; "" for None."""
    known = field or (error.field or "" if isinstance(error, InvalidInput) else "")
    return sentence(complaint(words, bare(str(error), known))) if error else ""


def bare(text: str, field: str) -> str:
    if field and text.startswith(f"{field} "):
        return f"This {text.removeprefix(field).lstrip()}"
    return text.removeprefix(f"{field}: ") if field else text


def sentence(text: str) -> str:
    """Return the text with a capital at its beginning and a full stop at its end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
