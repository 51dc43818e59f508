//! Serialization of events to JSON and back.
//!
//! A payload is parsed directly from its own text, because values that stay encoded cannot pass
//! through serde's buffered content. An event of a newer release keeps its text.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Event, EventKind, RunId, UnknownEvent};
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::value::Encoded;

#[derive(Serialize)]
struct EventToWrite<'a> {
    id: String,
    run_id: &'a RunId,
    seq: u64,
    #[serde(skip_serializing_if = "is_zero")]
    part: u32,
    time: Timestamp,
    path: &'a StepPath,
    parent: Option<StepPath>,
    #[serde(flatten)]
    kind: &'a EventKind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(part: &u32) -> bool {
    *part == 0
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventToWrite {
            id: self.id(),
            run_id: &self.run_id,
            seq: self.seq,
            part: self.part,
            time: self.time,
            path: &self.path,
            parent: self.path.parent(),
            kind: &self.kind,
        }
        .serialize(serializer)
    }
}

#[derive(Deserialize)]
struct ReadEvent {
    run_id: RunId,
    seq: u64,
    #[serde(default)]
    part: u32,
    time: Timestamp,
    path: StepPath,
    name: String,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ReadEvent { run_id, seq, part, time, path, name, payload } =
            ReadEvent::deserialize(deserializer)?;
        let payload = payload.as_deref().map_or("null", RawValue::get);
        let kind =
            EventKind::from_parts(&name, payload).map_err(D::Error::custom)?.with_question_id(seq);
        Ok(Self { run_id, seq, part, time, path, kind })
    }
}

impl Event {
    /// Rebuilds a recorded event from the columns of a store. `kind` is the JSON of
    /// [`kind`](Self::kind).
    ///
    /// A kind that only a newer release knows is read as [`EventKind::Unknown`].
    ///
    /// # Errors
    /// Fails if `kind` is not the JSON of an event.
    pub fn from_stored(
        run_id: RunId,
        seq: u64,
        time: Timestamp,
        path: StepPath,
        kind: &str,
    ) -> Result<Self, serde_json::Error> {
        let kind = EventKind::from_json(kind)?.with_question_id(seq);
        Ok(Self { run_id, seq, part: 0, time, path, kind })
    }
}

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(unknown) => unknown.serialize(serializer),
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Keeps the raw text, because an unknown event is parsed a second time.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(text.get()).map_err(D::Error::custom)
    }
}

impl EventKind {
    /// Parses a kind from its stored form, `{"name", "payload"}`.
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Named<'a> {
            name: Cow<'a, str>,
            #[serde(borrow, default)]
            payload: Option<&'a RawValue>,
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        match Self::deserialize(&mut reader).and_then(|kind| reader.end().map(|()| kind)) {
            Err(error) if is_newer(&error) => {
                let Named { name, payload } = serde_json::from_str(text)?;
                Self::unknown(&name, payload.map_or("null", RawValue::get))
            }
            read => read,
        }
    }

    /// Parses a kind from its name and the JSON of its payload.
    pub(crate) fn from_parts(name: &str, payload: &str) -> Result<Self, serde_json::Error> {
        match Self::deserialize(MapAccessDeserializer::new(KindEntries { name, payload, at: 0 })) {
            Err(error) if is_newer(&error) => Self::unknown(name, payload),
            read => read,
        }
    }

    /// Sets the id of a question from the sequence number of its event. Journals of older releases
    /// have questions without ids.
    fn with_question_id(mut self, seq: u64) -> Self {
        if let Self::ApprovalRequested(question) = &mut self
            && question.id.is_empty()
        {
            Arc::make_mut(question).set_id_from_seq(seq);
        }
        self
    }

    fn unknown(name: &str, payload: &str) -> Result<Self, serde_json::Error> {
        Ok(Self::Unknown(Arc::new(UnknownEvent::new(
            name,
            Encoded::from_json(payload.to_owned())?,
        ))))
    }
}

/// Returns `true` if the text contains an enum variant that this release does not know. A newer
/// release wrote it then. serde reports this case only through the text of its message.
fn is_newer(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with("unknown variant `")
}

/// The two map entries `name` and `payload`, in this order. serde sees the name first, so it need
/// not buffer the payload.
struct KindEntries<'a> {
    name: &'a str,
    payload: &'a str,
    at: u8,
}

impl<'de> MapAccess<'de> for KindEntries<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let key = match self.at {
            0 => "name",
            1 => "payload",
            _ => return Ok(None),
        };
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        self.at += 1;
        if self.at == 1 {
            return seed.deserialize(StrDeserializer::new(self.name));
        }
        // Parses the payload from its own text, without serde's buffering.
        seed.deserialize(&mut serde_json::Deserializer::from_str(self.payload))
    }
}
