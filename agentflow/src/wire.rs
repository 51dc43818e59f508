//! One slot for the bytes of a value in the wire format that was asked for last.
//!
//! It exists so that a long conversation is encoded once, not at every step. It never decides what the bytes are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Default)]
pub(crate) struct WireCache {
    slot: Mutex<Option<Encoded>>,
}

struct Encoded {
    format: Box<str>,
    bytes: Arc<[u8]>,
}

impl WireCache {
    pub(crate) fn get_or_encode(&self, format: &str, encode: impl FnOnce() -> Vec<u8>) -> Arc<[u8]> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(encoded) if *encoded.format == *format => Arc::clone(&encoded.bytes),
            _ => {
                let bytes: Arc<[u8]> = encode().into();
                *slot = Some(Encoded { format: format.into(), bytes: Arc::clone(&bytes) });
                bytes
            }
        }
    }
}

/// A clone starts empty: it may be changed before it is sent.
impl Clone for WireCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for WireCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WireCache")
    }
}
