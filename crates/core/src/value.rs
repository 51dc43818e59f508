//! [`Encoded`] and [`NodeValue`]: values that are passed between the nodes of a workflow and
//! recorded in its journal. They are encoded once and decoded by each reader.
//!
//! The trait bound of such values is defined only here. The module does not depend on graphs or
//! stores.

mod faithful;
#[cfg(test)]
mod round_trips;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use self::faithful::{Seen, Watched};

/// A value as JSON text, shared between its readers. Cloning increments one reference count.
///
/// Two values are equal if their JSON texts are equal.
#[derive(Clone)]
pub struct Encoded(Arc<str>);

/// Maximum size, in bytes, of the encoding buffer that a thread keeps for reuse.
const KEPT_ROOM: usize = 1 << 14;

thread_local! {
    /// Encoding buffer of the thread. The finished text is copied to memory of its exact size.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Encoded {
    /// Encodes a value.
    ///
    /// # Errors
    /// - The value has no JSON form: a map whose keys are neither strings nor numbers, or a failing
    ///   `Serialize` implementation.
    /// - The JSON would be decoded as a different value: `Some(())` and `Some(None)`, which would
    ///   become `None`, and floats that are infinite or not a number.
    /// - The value is nested more than 120 levels deep.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::watched(value, &Seen::default())
    }

    fn watched<T: Serialize + ?Sized>(value: &T, seen: &Seen) -> Result<Self, serde_json::Error> {
        json_of(&Watched(value, seen)).map_err(with_remedy).map(Self)
    }

    /// Creates a value from JSON text.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn from_json(text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::of_raw(serde_json::from_str(&text)?))
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self::of_raw(RawValue::NULL)
    }

    fn of_raw(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// If the text does not match the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Returns the items of a list, still encoded.
    ///
    /// # Errors
    /// If the text is not a list.
    pub fn items(&self) -> Result<Vec<Self>, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(self.as_str())?;
        Ok(items.into_iter().map(Self::of_raw).collect())
    }

    /// Creates a list of these values.
    pub fn list<'v>(items: impl IntoIterator<Item = &'v Self>) -> Self {
        let mut text = String::from("[");
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(item.as_str());
        }
        text.push(']');
        // JSON values between brackets are valid JSON, so this cannot fail.
        Self::from_json(text).unwrap_or_else(|_| Self::null())
    }
}

/// Serializes a value to JSON text in memory of its exact size.
pub(crate) fn json_of<T, S>(value: &T) -> Result<S, serde_json::Error>
where
    T: Serialize + ?Sized,
    S: for<'t> From<&'t str>,
{
    // During a nested call the buffer is taken, and the nested call allocates a new one.
    let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
    room.clear();
    let written = serde_json::to_writer(&mut room, value);
    let text = written.and_then(|()| match std::str::from_utf8(&room) {
        Ok(text) => Ok(S::from(text)),
        Err(error) => Err(serde_json::Error::custom(error)),
    });
    if room.capacity() <= KEPT_ROOM {
        // Fails only while the thread ends, when the buffer is no longer needed.
        let _ = ROOM.try_with(|kept| kept.set(room));
    }
    text
}

/// Adds the solution to an error whose text is a bare message of `serde_json`.
fn with_remedy(error: serde_json::Error) -> serde_json::Error {
    match error.to_string().as_str() {
        "key must be a string" => serde_json::Error::custom(
            "a key of a map is neither text nor a number, which JSON has not; keep a list of pairs in its place, as in \
             `Vec<(K, V)>`",
        ),
        _ => error,
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for Encoded {}

impl fmt::Display for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Parsing as `RawValue` finds the end of the text and passes it on unchanged.
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_raw(&Box::<RawValue>::deserialize(deserializer)?))
    }
}

/// Types that can be passed into, between and out of the nodes of a workflow. Their values are
/// recorded, decoded after a crash, and described by a schema. Implemented for every type that
/// implements `Serialize`, `DeserializeOwned`, `JsonSchema` and `Send + 'static`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the nodes of a workflow",
    label = "this value is recorded, so that a run can be resumed after a crash",
    note = "derive `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`; it must own its \
            data and be `Send`"
)]
pub trait NodeValue: Send + 'static {
    /// Encodes the value.
    ///
    /// # Errors
    /// If the value has no JSON form, or if its JSON would be decoded as a different value or not
    /// at all. The check does not compare values, so a field with `#[serde(skip)]` is not noticed.
    fn encode(&self) -> Result<Encoded, serde_json::Error>;

    /// Decodes a value.
    ///
    /// # Errors
    /// If the text does not match the type.
    fn decode(encoded: &Encoded) -> Result<Self, serde_json::Error>
    where
        Self: Sized;

    /// Returns the JSON Schema of the type.
    fn schema() -> Value
    where
        Self: Sized;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema + Send + 'static> NodeValue for T {
    fn encode(&self) -> Result<Encoded, serde_json::Error> {
        let seen = Seen::default();
        let encoded = Encoded::watched(self, &seen)?;
        // Some serde attributes lose data without an error. Only then is the value decoded again,
        // since that is slow.
        if seen.is_unsure() {
            read_back::<T>(&encoded)?;
        }
        Ok(encoded)
    }

    fn decode(encoded: &Encoded) -> Result<Self, serde_json::Error> {
        encoded.decode()
    }

    fn schema() -> Value {
        schemars::generate::SchemaSettings::draft2020_12()
            .with(|settings| settings.meta_schema = None)
            .into_generator()
            .into_root_schema_for::<Self>()
            .to_value()
    }
}

/// Decodes the text and checks that encoding the result gives the same text.
fn read_back<T: Serialize + DeserializeOwned>(encoded: &Encoded) -> Result<(), serde_json::Error> {
    const REMEDY: &str = "an integer of more than 64 bits, or a map whose keys are not strings, cannot stand within \
                          `#[serde(flatten)]`, `#[serde(untagged)]` or `#[serde(tag = ..)]`";
    let again = encoded.decode::<T>().and_then(|value| Encoded::new(&value)).map_err(|error| {
        serde_json::Error::custom(format!("its JSON cannot be read back: {error}; {REMEDY}"))
    })?;
    // The entries of a hash map can be in a different order, so the sorted bytes are compared.
    let sorted = |encoded: &Encoded| {
        let mut bytes = encoded.as_str().as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    match again == *encoded || sorted(&again) == sorted(encoded) {
        true => Ok(()),
        false => Err(serde_json::Error::custom(format!(
            "its JSON is read back as another value; {REMEDY}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoded, NodeValue};

    #[test]
    fn a_list_of_values_and_its_items() {
        let items = [
            1.encode().unwrap(),
            "a".to_owned().encode().unwrap(),
            Vec::<u8>::new().encode().unwrap(),
        ];
        let list = Encoded::list(&items);
        assert_eq!(list.as_str(), r#"[1,"a",[]]"#);
        assert_eq!(list.items().unwrap(), items);
        assert_eq!(Encoded::list([]).as_str(), "[]");
    }

    #[derive(serde::Serialize)]
    struct Unit;

    #[derive(serde::Serialize)]
    struct Wrapped(Option<u8>);

    #[derive(serde::Serialize)]
    struct Report {
        done: Option<Option<u8>>,
        ratios: Vec<f64>,
    }

    #[test]
    fn what_json_would_give_back_as_another_value_is_refused() {
        let some = "is `null` in JSON and would be read back as `None`; give a `bool` or an enum in its place";
        let problem = |result: Result<Encoded, serde_json::Error>| result.unwrap_err().to_string();
        assert_eq!(problem(Encoded::new(&Some(()))), format!("a `Some` of `()` {some}"));
        assert!(problem(Encoded::new(&Some(None::<u8>))).ends_with(some));
        assert!(problem(Encoded::new(&[Some(Unit)])).ends_with(some));
        assert!(problem(Encoded::new(&Some(Wrapped(None)))).ends_with(some));
        assert!(problem(Encoded::new(&Some(serde_json::Value::Null))).ends_with(some));
        let report = Report { done: Some(None), ratios: vec![] };
        assert!(problem(Encoded::new(&report)).starts_with("in `done`: a `Some` of"));
        let float = "has no JSON form and could not be read back; give an `Option` or an error in its place";
        let raw = serde_json::value::RawValue::from_string("null".to_owned()).unwrap();
        assert!(problem(Encoded::new(&[Some(&raw)])).ends_with(some));
        assert_eq!(problem(Encoded::new(&f64::NAN)), format!("the float `NaN` {float}"));
        assert_eq!(problem(Encoded::new(&Some(f32::INFINITY))), format!("the float `inf` {float}"));
        let report = Report { done: None, ratios: vec![0.5, f64::NEG_INFINITY] };
        assert_eq!(
            problem(Encoded::new(&report)),
            format!("in `ratios`: the float `-inf` {float}")
        );
    }

    #[test]
    fn what_json_gives_back_is_kept() {
        for (encoded, text) in [
            (Encoded::new(&()), "null"),
            (Encoded::new(&None::<Option<u8>>), "null"),
            (Encoded::new(&Some(Some(3))), "3"),
            (Encoded::new(&(Unit, Some("null"), None::<()>)), r#"[null,"null",null]"#),
            (Encoded::new(&Wrapped(None)), "null"),
            (
                Encoded::new(&Report { done: None, ratios: vec![0.5] }),
                r#"{"done":null,"ratios":[0.5]}"#,
            ),
            (Encoded::new(&serde_json::json!({"a": [null, 1.5]})), r#"{"a":[null,1.5]}"#),
            (
                Encoded::new(&Some(std::collections::BTreeMap::from([(1, None::<u8>)]))),
                r#"{"1":null}"#,
            ),
            (Encoded::new(&Encoded::null()), "null"),
        ] {
            assert_eq!(encoded.unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        assert!(Encoded::from_json("{".to_owned()).is_err());
    }
}
