//! Caches of the bytes of a value, or of a growing list of values, in the most recently requested
//! wire format.
//!
//! With them, each message of a long conversation is encoded once instead of once per turn. The
//! adapters produce the bytes.

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
    pub(crate) fn get_or_encode(
        &self,
        format: &str,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Arc<[u8]> {
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

/// A clone starts empty, since it may be changed before it is sent.
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

/// Cached bytes of a list that only grows, joined by commas.
#[derive(Default)]
pub(crate) struct ListCache {
    slot: Mutex<Joined>,
}

#[derive(Default)]
struct Joined {
    format: Box<str>,
    /// Number of items of the list that are contained in `bytes`.
    items: usize,
    bytes: Vec<u8>,
}

impl ListCache {
    /// Appends the whole list to `out`. Only items that were added since the last call are encoded.
    pub(crate) fn append<T>(
        &self,
        out: &mut Vec<u8>,
        format: &str,
        list: &[T],
        encode: impl Fn(&T) -> Arc<[u8]>,
    ) {
        let mut joined = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if *joined.format != *format {
            *joined = Joined { format: format.into(), ..Joined::default() };
        }
        for item in &list[joined.items..] {
            let bytes = encode(item);
            if !bytes.is_empty() {
                if !joined.bytes.is_empty() {
                    joined.bytes.push(b',');
                }
                joined.bytes.extend_from_slice(&bytes);
            }
            joined.items += 1;
        }
        // Reserves room for the fields that usually follow the list, so that a long list is not
        // copied again.
        out.reserve(joined.bytes.len() + 4096);
        out.extend_from_slice(&joined.bytes);
    }
}

/// A clone starts empty, since its list may be changed differently.
impl Clone for ListCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::ListCache;

    #[test]
    fn each_item_is_encoded_once_for_a_format() {
        let (cache, encoded) = (ListCache::default(), Cell::new(0));
        let joined = |format: &str, list: &[&str]| {
            let mut out = vec![b'['];
            cache.append(&mut out, format, list, |item| {
                encoded.set(encoded.get() + 1);
                Arc::from(
                    format!("{item}{}", if item.is_empty() { "" } else { format }).into_bytes(),
                )
            });
            String::from_utf8(out).expect("text")
        };
        assert_eq!(joined("1", &["a", ""]), "[a1");
        assert_eq!(joined("1", &["a", "", "b"]), "[a1,b1");
        assert_eq!(encoded.get(), 3);
        assert_eq!(joined("1", &["a", "", "b"]), "[a1,b1");
        assert_eq!(encoded.get(), 3);
        assert_eq!(joined("2", &["", "a", "b"]), "[a2,b2");
        assert_eq!(encoded.get(), 6);
    }
}
