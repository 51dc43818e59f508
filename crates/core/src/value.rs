//! `Encoded` and `NodeValue`: values that cross a boundary of a run. They are encoded once and decoded by each reader.
//!
//! It knows no graph and no store; it is the one place that states the bound of such values.

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

/// A value as JSON text, shared by all who read it. Cloning is one reference count.
///
/// Equal are two with the same text.
#[derive(Clone)]
pub struct Encoded(Arc<str>);

/// The most bytes of memory that a thread keeps to encode the next value in.
const KEPT_ROOM: usize = 1 << 14;

thread_local! {
    /// Where values are encoded before they get memory of their own size.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Encoded {
    /// Encodes a value.
    ///
    /// # Errors
    /// When the value has no JSON form: a map whose keys are neither strings nor numbers, or a `Serialize` of its own
    /// that fails. Also when its JSON does not say what it says: `Some(())` and `Some(None)`, which would be read back
    /// as `None`, a float that is infinite or not a number, and what is nested more than 120 deep.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::watched(value, &Seen::default())
    }

    fn watched<T: Serialize + ?Sized>(value: &T, seen: &Seen) -> Result<Self, serde_json::Error> {
        json_of(&Watched(value, seen)).map_err(with_remedy).map(Self)
    }

    /// Takes text that is JSON already.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn from_json(text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::of_raw(serde_json::from_str(&text)?))
    }

    /// `null`.
    pub fn null() -> Self {
        Self::of_raw(RawValue::NULL)
    }

    fn of_raw(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// When the text does not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// The items of a list, each still encoded.
    ///
    /// # Errors
    /// When the text is not a list.
    pub fn items(&self) -> Result<Vec<Self>, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(self.as_str())?;
        Ok(items.into_iter().map(Self::of_raw).collect())
    }

    /// A list of these values.
    pub fn list<'v>(items: impl IntoIterator<Item = &'v Self>) -> Self {
        let mut text = String::from("[");
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(item.as_str());
        }
        text.push(']');
        // Values of JSON between brackets are JSON.
        Self::from_json(text).unwrap_or_else(|_| Self::null())
    }
}

/// The JSON text of a value, in memory of its own size.
pub(crate) fn json_of<T, S>(value: &T) -> Result<S, serde_json::Error>
where
    T: Serialize + ?Sized,
    S: for<'t> From<&'t str>,
{
    // One that is encoded while another one is finds no room here, and makes its own.
    let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
    room.clear();
    let written = serde_json::to_writer(&mut room, value);
    let text = written.and_then(|()| match std::str::from_utf8(&room) {
        Ok(text) => Ok(S::from(text)),
        Err(error) => Err(serde_json::Error::custom(error)),
    });
    if room.capacity() <= KEPT_ROOM {
        // A thread that ends keeps none.
        let _ = ROOM.try_with(|kept| kept.set(room));
    }
    text
}

/// The same error with what to do about it, where the sentence of the library that writes JSON does not say it.
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
        // It is JSON, so it is read to its end and passed on as it is.
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_raw(&Box::<RawValue>::deserialize(deserializer)?))
    }
}

/// What can travel between the nodes of a workflow, into it and out of it: it is recorded, read back after a crash, and
/// described by a schema. Every type with these four properties is one.
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
    /// When it has no JSON form, or when its JSON would be read back as another value or not at all, as far as that can
    /// be seen without comparing values. A field that is skipped with `#[serde(skip)]` is not missed.
    fn encode(&self) -> Result<Encoded, serde_json::Error>;

    /// Decodes a value.
    ///
    /// # Errors
    /// When the text does not fit the type.
    fn decode(encoded: &Encoded) -> Result<Self, serde_json::Error>
    where
        Self: Sized;

    /// The JSON Schema of the type.
    fn schema() -> Value
    where
        Self: Sized;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema + Send + 'static> NodeValue for T {
    fn encode(&self) -> Result<Encoded, serde_json::Error> {
        let seen = Seen::default();
        let encoded = Encoded::watched(self, &seen)?;
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

/// Reads a value back where a type may not be able to, and checks that the same is written again.
fn read_back<T: Serialize + DeserializeOwned>(encoded: &Encoded) -> Result<(), serde_json::Error> {
    const REMEDY: &str = "an integer of more than 64 bits, or a map whose keys are not strings, cannot stand within \
                          `#[serde(flatten)]`, `#[serde(untagged)]` or `#[serde(tag = ..)]`";
    let again = encoded
        .decode::<T>()
        .and_then(|value| Encoded::new(&value))
        .map_err(|error| serde_json::Error::custom(format!("its JSON cannot be read back: {error}; {REMEDY}")))?;
    // The entries of a hash map may come in another order.
    let sorted = |encoded: &Encoded| {
        let mut bytes = encoded.as_str().as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    match again == *encoded || sorted(&again) == sorted(encoded) {
        true => Ok(()),
        false => Err(serde_json::Error::custom(format!("its JSON is read back as another value; {REMEDY}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoded, NodeValue};

    #[test]
    fn a_list_of_values_and_its_items() {
        let items = [1.encode().unwrap(), "a".to_owned().encode().unwrap(), Vec::<u8>::new().encode().unwrap()];
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
        assert_eq!(problem(Encoded::new(&report)), format!("in `ratios`: the float `-inf` {float}"));
    }

    #[test]
    fn what_json_gives_back_is_kept() {
        for (encoded, text) in [
            (Encoded::new(&()), "null"),
            (Encoded::new(&None::<Option<u8>>), "null"),
            (Encoded::new(&Some(Some(3))), "3"),
            (Encoded::new(&(Unit, Some("null"), None::<()>)), r#"[null,"null",null]"#),
            (Encoded::new(&Wrapped(None)), "null"),
            (Encoded::new(&Report { done: None, ratios: vec![0.5] }), r#"{"done":null,"ratios":[0.5]}"#),
            (Encoded::new(&serde_json::json!({"a": [null, 1.5]})), r#"{"a":[null,1.5]}"#),
            (Encoded::new(&Some(std::collections::BTreeMap::from([(1, None::<u8>)]))), r#"{"1":null}"#),
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
