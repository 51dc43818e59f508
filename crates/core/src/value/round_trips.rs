//! Round trips of many types: each value is decoded unchanged, or its encoding fails.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::NodeValue;

/// Returns `true` if the value is encoded and decoded unchanged, and `false` if its encoding fails.
#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + JsonSchema + Send + PartialEq + Debug + 'static>(
    value: &T,
) -> bool {
    let Ok(encoded) = value.encode() else { return false };
    let decoded = T::decode(&encoded);
    assert_eq!(decoded.as_ref().ok(), Some(value), "{encoded} {decoded:?}");
    true
}

#[track_caller]
fn refused<T: NodeValue + Debug>(value: &T) -> String {
    value.encode().unwrap_err().to_string()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Inner {
    wide: u128,
    by_number: HashMap<u32, bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Flat {
    name: String,
    #[serde(flatten)]
    inner: Inner,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Wide(u128),
    Float(f64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Tagged {
    Plain { inner: Inner },
    Nothing,
}

#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
enum Key {
    One,
    Two,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Variant {
    Unit,
    New(Option<Box<Variant>>),
    Tuple(i128, f64),
    Struct { list: Vec<Option<u8>>, map: BTreeMap<i8, char> },
}

fn variant() -> impl Strategy<Value = Variant> {
    let leaf = prop_oneof![
        Just(Variant::Unit),
        Just(Variant::New(None)),
        (any::<i128>(), prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)
            .prop_map(|(a, b)| Variant::Tuple(a, b)),
        (any::<Vec<Option<u8>>>(), any::<BTreeMap<i8, char>>())
            .prop_map(|(list, map)| Variant::Struct { list, map }),
    ];
    leaf.prop_recursive(4, 8, 2, |inner| {
        inner.prop_map(|inner| Variant::New(Some(Box::new(inner))))
    })
}

proptest! {
    #[test]
    fn floats_keep_their_bits(bits: u64, short: u32) {
        let (long, short) = (f64::from_bits(bits), f32::from_bits(short));
        match long.encode() {
            Ok(encoded) => prop_assert_eq!(f64::decode(&encoded).unwrap().to_bits(), bits),
            Err(_) => prop_assert!(!long.is_finite()),
        }
        match short.encode() {
            Ok(encoded) => prop_assert_eq!(f32::decode(&encoded).unwrap().to_bits(), short.to_bits()),
            Err(_) => prop_assert!(!short.is_finite()),
        }
        // The same inside an untagged enum, which serde buffers, and through a `Value`.
        if long.is_finite() {
            prop_assert!(comes_back(&Untagged::Float(long)));
            prop_assert!(comes_back(&serde_json::json!([long])));
        }
    }

    #[test]
    fn integers_keep_their_value(a: i128, b: u128, c: i64, d: u64) {
        prop_assert!(comes_back(&(a, b, c, d)));
        prop_assert!(comes_back(&BTreeMap::from([((a), (b, c))])));
        prop_assert!(comes_back(&HashMap::from([(b, a), (u128::from(d), -1)])));
    }

    #[test]
    fn options_of_options_come_back_or_are_refused(value: Option<Option<u8>>, deep: Vec<Option<Option<Option<bool>>>>) {
        prop_assert_eq!(comes_back(&value), value != Some(None));
        let lost = deep.iter().any(|one| matches!(one, Some(None | Some(None))));
        prop_assert_eq!(comes_back(&deep), !lost);
    }

    #[test]
    fn enums_come_back(value in variant()) {
        prop_assert!(comes_back(&value));
        prop_assert!(comes_back(&vec![Some(value.clone()), None]));
        prop_assert!(comes_back(&Ok::<_, String>(value)));
    }

    #[test]
    fn maps_come_back(
        numbers: BTreeMap<i64, String>,
        chars: HashMap<char, f32>,
        flags: BTreeMap<bool, ()>,
        some: HashMap<u16, Option<u16>>,
    ) {
        prop_assert!(comes_back(&numbers));
        prop_assert!(chars.values().any(|float| !float.is_finite()) || comes_back(&chars));
        prop_assert!(comes_back(&flags));
        prop_assert!(comes_back(&some));
        prop_assert!(comes_back(&BTreeMap::from([(Key::One, 1), (Key::Two, 2)])));
        prop_assert!(numbers.is_empty() || !comes_back(&BTreeMap::from([((1, 2), numbers)])));
    }

    /// Serde buffers these types in its own value, which has no integers of more than 64 bits and
    /// only string keys.
    #[test]
    fn what_is_read_by_way_of_another_value_comes_back_or_is_refused(wide: u128, key: Option<u32>, name: String) {
        let inner = Inner { wide, by_number: key.map(|key| (key, true)).into_iter().collect() };
        let plain = u64::try_from(wide).is_ok() && key.is_none();
        prop_assert_eq!(comes_back(&Flat { name, inner: inner.clone() }), plain);
        prop_assert_eq!(comes_back(&Tagged::Plain { inner }), plain);
        prop_assert_eq!(comes_back(&Untagged::Wide(wide)), u64::try_from(wide).is_ok());
    }
}

#[test]
fn what_serde_cannot_read_is_refused_with_the_reason() {
    let remedy = "an integer of more than 64 bits, or a map whose keys are not strings, cannot stand within \
                  `#[serde(flatten)]`, `#[serde(untagged)]` or `#[serde(tag = ..)]`";
    let message = refused(&Untagged::Wide(u128::MAX));
    assert_eq!(message, format!("its JSON is read back as another value; {remedy}"));
    let message =
        refused(&Tagged::Plain { inner: Inner { wide: 1, by_number: HashMap::from([(1, true)]) } });
    assert!(
        message.starts_with("its JSON cannot be read back: ") && message.ends_with(remedy),
        "{message}"
    );
    assert!(comes_back(&Tagged::Nothing) && comes_back(&Untagged::Text("null".into())));
}

#[test]
fn the_sign_of_zero_is_kept() {
    for zero in [0.0_f64, -0.0] {
        assert_eq!(f64::decode(&zero.encode().unwrap()).unwrap().to_bits(), zero.to_bits());
        let value = serde_json::json!(zero);
        let back = serde_json::Value::decode(&value.encode().unwrap()).unwrap();
        assert_eq!(back.as_f64().unwrap().to_bits(), zero.to_bits());
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Tree {
    below: Option<Box<Tree>>,
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let tree = |depth| {
        (1..depth).fold(Tree { below: None }, |below, _| Tree { below: Some(Box::new(below)) })
    };
    assert!(comes_back(&tree(120)));
    let message = refused(&tree(121));
    assert!(
        message.contains("it is nested more than 120 deep and could not be read back; give a list"),
        "{message}"
    );
    assert!(message.len() < 3000, "{}", message.len());
}
