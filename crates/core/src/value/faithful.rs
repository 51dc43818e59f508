//! Detects values that do not survive a round trip through JSON, while they are encoded.
//!
//! JSON has a single `null` for `None`, `()`, and floats that are infinite or NaN, and JSON readers
//! limit the nesting depth. The encoded JSON is not changed.

use std::cell::Cell;
use std::fmt::Display;

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Maximum nesting of lists, maps, structs and variants. `serde_json` reads 127 levels; the rest is
/// reserved for values that are embedded in a list or an object.
const DEEPEST: usize = 120;

/// Struct name with which `serde_json` marks text that is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// Properties of the value that was written last.
#[derive(Default)]
pub(super) struct Seen {
    /// `true` if it is `null` in JSON.
    null: Cell<bool>,
    /// `true` if it is a string in JSON.
    text: Cell<bool>,
    /// `true` if it is the text `null`.
    null_text: Cell<bool>,
    /// Number of enclosing values that are open.
    depth: Cell<usize>,
    /// `true` if a value was written that only some types can read back.
    unsure: Cell<bool>,
}

impl Seen {
    /// Returns `true` if a value was written that only some types can read back: an integer of more
    /// than 64 bits, or a map key that is not a string. Serde cannot read them in flattened,
    /// untagged and internally tagged types.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure.get()
    }

    fn wrote(&self, null: bool) {
        self.null.set(null);
        self.text.set(false);
    }

    fn wrote_text(&self, text: Option<&str>) {
        self.null.set(false);
        self.text.set(true);
        self.null_text.set(text == Some("null"));
    }

    fn wrote_integer(&self, is_wide: bool) {
        self.wrote(false);
        if is_wide {
            self.unsure.set(true);
        }
    }

    fn open<E: Error>(&self) -> Result<(), E> {
        self.depth.set(self.depth.get() + 1);
        match self.depth.get() > DEEPEST {
            true => Err(E::custom(format!(
                "it is nested more than {DEEPEST} deep and could not be read back; give a list of its parts in its place"
            ))),
            false => Ok(()),
        }
    }

    fn close(&self, null: bool) {
        self.depth.set(self.depth.get() - 1);
        self.wrote(null);
    }
}

/// Wraps a value to check it while it is encoded.
///
/// Encoding fails with the field and a remedy for a `Some` whose content is `null` in JSON, since
/// it would be read as `None`, and for an infinite float or NaN, which cannot be read at all.
pub(super) struct Watched<'a, T: ?Sized>(pub(super) &'a T, pub(super) &'a Seen);

impl<T: Serialize + ?Sized> Serialize for Watched<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(CheckingSerializer { inner: serializer, seen: self.1, is_raw: false })
    }
}

/// Serializer that forwards all calls and checks the values.
struct CheckingSerializer<'a, S> {
    inner: S,
    seen: &'a Seen,
    /// `true` if the value is text that is JSON already.
    is_raw: bool,
}

fn finite<E: Error>(is_finite: bool, float: impl Display) -> Result<(), E> {
    match is_finite {
        true => Ok(()),
        false => Err(E::custom(format!(
            "the float `{float}` has no JSON form and could not be read back; give an `Option` or an error in its place"
        ))),
    }
}

macro_rules! leaves {
    ($($method:ident $T:ty)*) => {
        $(fn $method(self, value: $T) -> Result<S::Ok, S::Error> {
            self.seen.wrote(false);
            self.inner.$method(value)
        })*
    };
}

impl<'a, S: Serializer> CheckingSerializer<'a, S> {
    fn compound<C>(
        self,
        open: impl FnOnce(S) -> Result<C, S::Error>,
    ) -> Result<CheckingSerializer<'a, C>, S::Error> {
        self.seen.open()?;
        Ok(CheckingSerializer { inner: open(self.inner)?, seen: self.seen, is_raw: false })
    }
}

impl<'a, S: Serializer> Serializer for CheckingSerializer<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = CheckingSerializer<'a, S::SerializeSeq>;
    type SerializeTuple = CheckingSerializer<'a, S::SerializeTuple>;
    type SerializeTupleStruct = CheckingSerializer<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = CheckingSerializer<'a, S::SerializeTupleVariant>;
    type SerializeMap = CheckingSerializer<'a, S::SerializeMap>;
    type SerializeStruct = CheckingSerializer<'a, S::SerializeStruct>;
    type SerializeStructVariant = CheckingSerializer<'a, S::SerializeStructVariant>;

    leaves! {
        serialize_bool bool
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64
        serialize_bytes &[u8]
    }

    fn serialize_i128(self, value: i128) -> Result<S::Ok, S::Error> {
        // Serde's buffer for untagged and flattened types holds at most 64 bits.
        self.seen.wrote_integer(i64::try_from(value).is_err());
        self.inner.serialize_i128(value)
    }

    fn serialize_u128(self, value: u128) -> Result<S::Ok, S::Error> {
        // As for `i128`: serde's buffer holds at most 64 bits.
        self.seen.wrote_integer(u64::try_from(value).is_err());
        self.inner.serialize_u128(value)
    }

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        // `serde_json` would write `null` for it.
        finite(value.is_finite(), value)?;
        self.seen.wrote(false);
        self.inner.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        finite(value.is_finite(), value)?;
        self.seen.wrote(false);
        self.inner.serialize_f64(value)
    }

    fn serialize_char(self, value: char) -> Result<S::Ok, S::Error> {
        self.seen.wrote_text(None);
        self.inner.serialize_char(value)
    }

    fn serialize_str(self, value: &str) -> Result<S::Ok, S::Error> {
        self.seen.wrote_text(Some(value));
        self.inner.serialize_str(value)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.seen.wrote_text(None);
        self.inner.collect_str(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.seen.wrote(true);
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.seen.wrote(true);
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.seen.wrote(true);
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let written = self.inner.serialize_some(&Watched(value, self.seen))?;
        // The inner value set the flag, so it is known only after the value was written.
        match self.seen.null.get() {
            false => Ok(written),
            true => Err(S::Error::custom(format!(
                "a `Some` of `{}` is `null` in JSON and would be read back as `None`; give a `bool` or an enum in its \
                 place",
                std::any::type_name::<T>()
            ))),
        }
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        at: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.seen.wrote_text(None);
        self.inner.serialize_unit_variant(name, at, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        // A newtype struct is transparent in JSON, so it adds no level, and `null` stays `null`.
        self.inner.serialize_newtype_struct(name, &Watched(value, self.seen))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        at: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        // A newtype variant is written as an object with one field, so it adds a level.
        self.seen.open()?;
        let written =
            self.inner.serialize_newtype_variant(name, at, variant, &Watched(value, self.seen))?;
        self.seen.close(false);
        Ok(written)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.compound(|inner| inner.serialize_seq(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.compound(|inner| inner.serialize_tuple(len))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.compound(|inner| inner.serialize_tuple_struct(name, len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        at: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.compound(|inner| inner.serialize_tuple_variant(name, at, variant, len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.compound(|inner| inner.serialize_map(len))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        let watching = self.compound(|inner| inner.serialize_struct(name, len))?;
        // A raw value is a struct with one field for `serde_json`, but not in the JSON.
        Ok(CheckingSerializer { is_raw: name == RAW, ..watching })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        at: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.compound(|inner| inner.serialize_struct_variant(name, at, variant, len))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! elements {
    ($($Compound:ident $element:ident)*) => {
        $(impl<C: $Compound> $Compound for CheckingSerializer<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                self.inner.$element(&Watched(value, self.seen))
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.seen.close(false);
                self.inner.end()
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

macro_rules! fields {
    ($($Compound:ident)*) => {
        $(impl<C: $Compound> $Compound for CheckingSerializer<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), C::Error> {
                self.inner
                    .serialize_field(name, &Watched(value, self.seen))
                    .map_err(|error| C::Error::custom(format!("in `{name}`: {error}")))
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(name)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.seen.close(self.is_raw && self.seen.null_text.get());
                self.inner.end()
            }
        })*
    };
}

fields!(SerializeStruct SerializeStructVariant);

impl<C: SerializeMap> SerializeMap for CheckingSerializer<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.inner.serialize_key(&Watched(key, self.seen))?;
        // A key of a different type is written as a string. Serde's buffer gives it back as a
        // string.
        if !self.seen.text.get() {
            self.seen.unsure.set(true);
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&Watched(value, self.seen))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.seen.close(false);
        self.inner.end()
    }
}
