//! Checks that a value survives JSON. JSON has one `null` for `None`, for `()` and for floats that are infinite or NaN,
//! so such a value could not be read back.
//!
//! It is a serializer that writes nothing and only looks; its answer is whether the value is `null` in JSON.

use std::fmt::Display;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// Checks that the JSON of a value gives back the value.
///
/// # Errors
/// With the field and what to do: `Some` of what JSON writes as `null` would be read as `None`, and an infinite
/// float or NaN would not be read at all.
pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), Error> {
    value.serialize(Faithful).map(drop)
}

struct Faithful;

macro_rules! never_null {
    ($($method:ident $T:ty)*) => {
        $(fn $method(self, _: $T) -> Result<bool, Error> {
            Ok(false)
        })*
    };
}

fn finite(is_finite: bool, float: impl Display) -> Result<bool, Error> {
    match is_finite {
        true => Ok(false),
        false => Err(Error::custom(format!(
            "the float `{float}` has no JSON form and could not be read back; give an `Option` or an error in its place"
        ))),
    }
}

impl Serializer for Faithful {
    type Ok = bool;
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    never_null! {
        serialize_bool bool
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64 serialize_i128 i128
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_u128 u128
        serialize_char char serialize_str &str serialize_bytes &[u8]
    }

    fn serialize_f32(self, float: f32) -> Result<bool, Error> {
        finite(float.is_finite(), float)
    }

    fn serialize_f64(self, float: f64) -> Result<bool, Error> {
        finite(float.is_finite(), float)
    }

    fn serialize_none(self) -> Result<bool, Error> {
        Ok(true)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<bool, Error> {
        match value.serialize(Self)? {
            false => Ok(false),
            true => Err(Error::custom(format!(
                "a `Some` of `{}` is `null` in JSON and would be read back as `None`; give a `bool` or an enum in its \
                 place",
                std::any::type_name::<T>()
            ))),
        }
    }

    fn serialize_unit(self) -> Result<bool, Error> {
        Ok(true)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<bool, Error> {
        Ok(true)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<bool, Error> {
        Ok(false)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<bool, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<bool, Error> {
        value.serialize(self).map(|_| false)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<bool, Error> {
        Ok(false)
    }
}

fn looked_at<T: Serialize + ?Sized>(value: &T) -> Result<(), Error> {
    value.serialize(Faithful).map(drop)
}

fn field<T: Serialize + ?Sized>(name: &str, value: &T) -> Result<(), Error> {
    looked_at(value).map_err(|error| Error::custom(format!("in `{name}`: {error}")))
}

macro_rules! elements {
    ($($Compound:ident $element:ident)*) => {
        $(impl $Compound for Faithful {
            type Ok = bool;
            type Error = Error;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                looked_at(value)
            }

            fn end(self) -> Result<bool, Error> {
                Ok(false)
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
        $(impl $Compound for Faithful {
            type Ok = bool;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                field(name, value)
            }

            fn end(self) -> Result<bool, Error> {
                Ok(false)
            }
        })*
    };
}

fields!(SerializeStruct SerializeStructVariant);

impl SerializeMap for Faithful {
    type Ok = bool;
    type Error = Error;

    // What a key may be is checked where it is written.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        looked_at(value)
    }

    fn end(self) -> Result<bool, Error> {
        Ok(false)
    }
}
