from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Overflow(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERFLOW_EVICT: _ClassVar[Overflow]
    OVERFLOW_REJECT: _ClassVar[Overflow]
OVERFLOW_EVICT: Overflow
OVERFLOW_REJECT: Overflow

class Settings(_message.Message):
    __slots__ = ("retention_ttl_ms", "compaction_window_ms", "capacity", "max_bytes", "max_keys", "journal_bytes", "overflow", "durable", "log_bytes", "segment_bytes", "table", "tombstones_ms")
    RETENTION_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_KEYS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_MS_FIELD_NUMBER: _ClassVar[int]
    retention_ttl_ms: int
    compaction_window_ms: int
    capacity: int
    max_bytes: int
    max_keys: int
    journal_bytes: int
    overflow: Overflow
    durable: bool
    log_bytes: int
    segment_bytes: int
    table: bool
    tombstones_ms: int
    def __init__(self, retention_ttl_ms: _Optional[int] = ..., compaction_window_ms: _Optional[int] = ..., capacity: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_keys: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., overflow: _Optional[_Union[Overflow, str]] = ..., durable: _Optional[bool] = ..., log_bytes: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., table: _Optional[bool] = ..., tombstones_ms: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("topic", "settings")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    settings: Settings
    def __init__(self, topic: _Optional[str] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("created", "epoch", "settings")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    created: bool
    epoch: int
    settings: Settings
    def __init__(self, created: _Optional[bool] = ..., epoch: _Optional[int] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic", "if_empty", "epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    IF_EMPTY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    if_empty: bool
    epoch: int
    def __init__(self, topic: _Optional[str] = ..., if_empty: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("epoch", "settings", "head", "next_offset", "subscriptions")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    settings: Settings
    head: int
    next_offset: int
    subscriptions: int
    def __init__(self, epoch: _Optional[int] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., head: _Optional[int] = ..., next_offset: _Optional[int] = ..., subscriptions: _Optional[int] = ...) -> None: ...

class NewMessage(_message.Message):
    __slots__ = ("key", "payload", "tombstone")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    payload: bytes
    tombstone: bool
    def __init__(self, key: _Optional[bytes] = ..., payload: _Optional[bytes] = ..., tombstone: _Optional[bool] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("topic", "messages", "producer", "number")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[NewMessage]
    producer: int
    number: int
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[NewMessage, _Mapping]]] = ..., producer: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("first_offset", "stored", "dropped", "subscriptions", "durable")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    stored: int
    dropped: _containers.RepeatedScalarFieldContainer[int]
    subscriptions: int
    durable: bool
    def __init__(self, first_offset: _Optional[int] = ..., stored: _Optional[int] = ..., dropped: _Optional[_Iterable[int]] = ..., subscriptions: _Optional[int] = ..., durable: _Optional[bool] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("start", "commit")
    START_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    start: Start
    commit: Commit
    def __init__(self, start: _Optional[_Union[Start, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("topic", "name", "latest", "offset", "time_us", "epoch", "credit")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    latest: bool
    offset: int
    time_us: int
    epoch: int
    credit: int
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., latest: _Optional[bool] = ..., offset: _Optional[int] = ..., time_us: _Optional[int] = ..., epoch: _Optional[int] = ..., credit: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("started", "messages", "lagged", "deletions_missed")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAGGED_FIELD_NUMBER: _ClassVar[int]
    DELETIONS_MISSED_FIELD_NUMBER: _ClassVar[int]
    started: Started
    messages: Messages
    lagged: Lagged
    deletions_missed: DeletionsMissed
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., messages: _Optional[_Union[Messages, _Mapping]] = ..., lagged: _Optional[_Union[Lagged, _Mapping]] = ..., deletions_missed: _Optional[_Union[DeletionsMissed, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("epoch", "start", "live", "resumed", "table")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    start: int
    live: int
    resumed: bool
    table: bool
    def __init__(self, epoch: _Optional[int] = ..., start: _Optional[int] = ..., live: _Optional[int] = ..., resumed: _Optional[bool] = ..., table: _Optional[bool] = ...) -> None: ...

class Messages(_message.Message):
    __slots__ = ("messages", "redelivered")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    redelivered: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., redelivered: _Optional[bool] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("offset", "accepted_us", "key", "payload")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_US_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    offset: int
    accepted_us: int
    key: bytes
    payload: bytes
    def __init__(self, offset: _Optional[int] = ..., accepted_us: _Optional[int] = ..., key: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Lagged(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class DeletionsMissed(_message.Message):
    __slots__ = ("below",)
    BELOW_FIELD_NUMBER: _ClassVar[int]
    below: int
    def __init__(self, below: _Optional[int] = ...) -> None: ...
