//! Events as JSON and back.
//!
//! A payload is parsed straight from its own text, since values that stay encoded could not pass through serde's
//! buffers.

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Event, EventKind, RunId};
use crate::path::StepPath;
use crate::time::Timestamp;

#[derive(Serialize)]
struct Written<'a> {
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
        Written {
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
struct Read {
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
        let Read { run_id, seq, part, time, path, name, payload } = Read::deserialize(deserializer)?;
        let payload = payload.as_deref().map_or("null", RawValue::get);
        let kind = EventKind::from_parts(&name, payload).map_err(D::Error::custom)?;
        Ok(Self { run_id, seq, part, time, path, kind })
    }
}

impl EventKind {
    /// The kind of a name with a payload.
    pub(crate) fn from_parts(name: &str, payload: &str) -> Result<Self, serde_json::Error> {
        Self::deserialize(MapAccessDeserializer::new(Parts { name, payload, at: 0 }))
    }
}

/// The two entries `name` and `payload`, in this order: so nothing has to be kept until the name is known.
struct Parts<'a> {
    name: &'a str,
    payload: &'a str,
    at: u8,
}

impl<'de> MapAccess<'de> for Parts<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let key = match self.at {
            0 => "name",
            1 => "payload",
            _ => return Ok(None),
        };
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        self.at += 1;
        if self.at == 1 {
            return seed.deserialize(StrDeserializer::new(self.name));
        }
        seed.deserialize(&mut serde_json::Deserializer::from_str(self.payload))
    }
}
