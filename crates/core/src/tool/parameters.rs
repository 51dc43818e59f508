//! Reads the JSON arguments of a call into a function's parameters. `schema.rs` builds the JSON
//! Schema from the same description, so the two cannot disagree.
//!
//! The fast path parses the text directly into the typed values. If that fails, the text is parsed
//! again argument by argument, to report the path, the expected type and the actual value of each
//! problem.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use agentflow_schema::strict;
use agentflow_schema::text::{did_you_mean, head, nearest};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

use super::probe::Filled;
use super::tool_output::ToolError;
use crate::context::Context;
use crate::resource::{Inject, ResourceKey};
use crate::tuples::all_the_tuples;

/// Types of a `#[tool]` function's parameters: any owned value with a schema, or [`Inject`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a tool parameter",
    label = "the model cannot fill this in",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it; it must be `Send` and own its data",
    note = "for something the program provides, such as a client or a pool, take `Inject<{Self}>`",
    note = "the context is taken by reference and first, as `cx: &Context`"
)]
pub trait ToolParam: Sized + Send + 'static {
    /// `true` if the program provides the value, so that the model does not see the parameter.
    #[doc(hidden)]
    const INJECTED: bool;

    #[doc(hidden)]
    fn schema(generator: &mut SchemaGenerator) -> Schema;

    #[doc(hidden)]
    fn read<'de, M: MapAccess<'de>>(map: &mut M) -> Result<Self, M::Error>;

    /// Returns the value for a missing argument: an injected resource, or the type's own default,
    /// such as `None` for an `Option`.
    #[doc(hidden)]
    fn absent(cx: Option<&Context>) -> Option<Self>;

    #[doc(hidden)]
    fn from_json(text: &str) -> Result<Self, Refusal>;

    #[doc(hidden)]
    fn resource() -> Option<ResourceKey>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> ToolParam for T {
    const INJECTED: bool = false;

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }

    fn read<'de, M: MapAccess<'de>>(map: &mut M) -> Result<Self, M::Error> {
        map.next_value()
    }

    fn absent(_: Option<&Context>) -> Option<Self> {
        T::deserialize(Absent).ok()
    }

    fn from_json(text: &str) -> Result<Self, Refusal> {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| Refusal::new(error, text))
    }

    fn resource() -> Option<ResourceKey> {
        None
    }
}

impl<T: ?Sized + Send + Sync + 'static> ToolParam for Inject<T> {
    const INJECTED: bool = true;

    fn schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }

    fn read<'de, M: MapAccess<'de>>(_: &mut M) -> Result<Self, M::Error> {
        Err(serde::de::Error::custom("this parameter is provided by the program, not by the model"))
    }

    fn absent(cx: Option<&Context>) -> Option<Self> {
        cx.and_then(Context::resource::<T>).map(Self::from)
    }

    fn from_json(_: &str) -> Result<Self, Refusal> {
        Err(Refusal::injected())
    }

    fn resource() -> Option<ResourceKey> {
        Some(ResourceKey::of::<T>())
    }
}

/// Deserializer for a missing value: an `Option` becomes `None`, every other type fails.
struct Absent;

impl<'de> Deserializer<'de> for Absent {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Types that can have a default: the default is shown in the schema, so it must be serializable.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot have a default",
    label = "the default cannot be shown in the schema",
    note = "derive `serde::Serialize` for it, or take an `Option` and decide in the body"
)]
pub trait ParamDefault: serde::Serialize + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + Send + 'static> ParamDefault for T {}

/// The function of `#[tool(default = ..)]`, for the body and for the schema.
#[derive(Clone, Copy)]
pub(super) struct DefaultFn {
    /// A `fn() -> T`.
    pub(super) make: &'static (dyn Any + Sync),
    pub(super) json: fn(&dyn Any) -> Value,
}

impl DefaultFn {
    fn value<T: 'static>(self) -> Option<T> {
        let make: &dyn Any = self.make;
        make.downcast_ref::<fn() -> T>().map(|make| make())
    }
}

/// A parameter as seen by the attribute.
pub struct Param {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) default: Option<DefaultFn>,
}

impl Param {
    /// Creates a parameter. `_filled` is the [`Probe`](super::probe::Probe) constant of its type; a
    /// type of shared state fails to compile.
    pub const fn new<F: Filled>(name: &'static str, description: &'static str, _filled: F) -> Self {
        Self { name, description, default: None }
    }

    #[must_use]
    pub const fn with_default<T: ParamDefault>(mut self, make: &'static fn() -> T) -> Self {
        self.default = Some(DefaultFn {
            make,
            json: |make| {
                let make = make.downcast_ref::<fn() -> T>();
                make.and_then(|make| serde_json::to_value(make()).ok()).unwrap_or(Value::Null)
            },
        });
        self
    }
}

/// A parameter as seen by its type.
pub struct ParamType {
    injected: bool,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    /// Returns the value for a missing argument, if the type has one.
    absent: fn() -> Option<Box<dyn Any + Send>>,
    from_json: fn(&str) -> Result<Box<dyn Any + Send>, Refusal>,
    resource: fn() -> Option<ResourceKey>,
}

impl ParamType {
    pub(crate) const fn new<T: ToolParam>() -> Self {
        Self {
            injected: T::INJECTED,
            schema: T::schema,
            absent: || T::absent(None).map(|value| Box::new(value) as Box<dyn Any + Send>),
            from_json: |text| Ok(Box::new(T::from_json(text)?)),
            resource: T::resource,
        }
    }

    pub(super) fn is_optional(&self) -> bool {
        (self.absent)().is_some()
    }
}

/// All parameters of a function, from the attribute and from the types, in the same order.
#[derive(Clone, Copy)]
pub(crate) struct Parameters {
    pub(crate) params: &'static [Param],
    pub(crate) types: &'static [ParamType],
}

impl Parameters {
    /// Returns the parameters that the model fills in, with their positions.
    pub(super) fn shown(self) -> impl Iterator<Item = (usize, &'static Param, &'static ParamType)> {
        let pairs = self.params.iter().zip(self.types);
        pairs
            .enumerate()
            .filter(|(_, (_, of))| !of.injected)
            .map(|(index, (param, of))| (index, param, of))
    }

    /// Finds a parameter by name. The position `likely` is checked first.
    #[inline]
    fn find(&self, name: &str, likely: usize) -> Option<usize> {
        let is_named = |param: &Param| param.name == name;
        let index = match self.params.get(likely).is_some_and(is_named) {
            true => likely,
            false => self.params.iter().position(is_named)?,
        };
        (!self.types[index].injected).then_some(index)
    }

    /// Returns the resources that the program must provide.
    pub(crate) fn resources(self) -> Vec<ResourceKey> {
        self.types.iter().filter_map(|of| (of.resource)()).collect()
    }
}

/// The parameters of a function as a tuple.
pub(crate) trait ToolParams: Sized + 'static {
    const TYPES: &'static [ParamType];

    type Slots;

    fn empty() -> Self::Slots;

    fn read_into<'de, M: MapAccess<'de>>(
        slots: &mut Self::Slots,
        index: usize,
        map: &mut M,
    ) -> Result<(), M::Error>;

    fn finish(slots: Self::Slots, params: &[Param], cx: &Context) -> Result<Self, ToolError>;

    fn set(slots: &mut Self::Slots, index: usize, value: Box<dyn Any + Send>);
}

fn fill<T: ToolParam>(slot: Option<T>, param: &Param, cx: &Context) -> Result<T, ToolError> {
    if let Some(value) = slot {
        return Ok(value);
    }
    if let Some(value) = param.default.and_then(DefaultFn::value::<T>) {
        return Ok(value);
    }
    // An injected parameter is never in the JSON; `absent` looks it up in the context.
    T::absent(Some(cx)).ok_or_else(|| match T::resource() {
        Some(key) => ToolError::new(format!(
            "the program gave this agent no resource of type {}; other arguments do not help",
            cx.resources().missing(key)
        )),
        None => ToolError::invalid_arguments(missing_argument(param.name)),
    })
}

macro_rules! tuples {
    (_ $length:literal $($T:ident $index:tt)*) => {
        impl<$($T: ToolParam),*> ToolParams for ($($T,)*) {
            const TYPES: &'static [ParamType] = &[$(ParamType::new::<$T>()),*];

            type Slots = ($(Option<$T>,)*);

            #[allow(clippy::unused_unit, reason = "a function without parameters has no slot")]
            fn empty() -> Self::Slots {
                ($(None::<$T>,)*)
            }

            #[allow(unused_variables, reason = "a function without parameters has no slot")]
            fn read_into<'de, Entries: MapAccess<'de>>(
                slots: &mut Self::Slots,
                index: usize,
                map: &mut Entries,
            ) -> Result<(), Entries::Error> {
                match index {
                    $($index => slots.$index = Some($T::read(map)?),)*
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(())
            }

            #[allow(unused_variables, reason = "a function without parameters has no slot")]
            fn finish(slots: Self::Slots, params: &[Param], cx: &Context) -> Result<Self, ToolError> {
                Ok(($(fill(slots.$index, &params[$index], cx)?,)*))
            }

            #[allow(unused_variables, reason = "a function without parameters has no slot")]
            fn set(slots: &mut Self::Slots, index: usize, value: Box<dyn Any + Send>) {
                match index {
                    $($index => slots.$index = value.downcast().ok().map(|value| *value),)*
                    _ => {}
                }
            }
        }
    };
}

all_the_tuples!(tuples, 16);

/// Reads a call's arguments.
pub(crate) fn read<T: ToolParams>(
    parameters: Parameters,
    cx: &Context,
    arguments: &str,
) -> Result<T, ToolError> {
    let text = given(arguments);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let visitor = FastVisitor::<T> { parameters, of: PhantomData };
    let slots = match deserializer
        .deserialize_map(visitor)
        .and_then(|slots| deserializer.end().map(|()| slots))
    {
        Ok(slots) => {
            // The keys of the arguments themselves were checked on the way; those of objects in
            // them were not.
            let has_objects = memchr::memchr(b'{', &text.as_bytes()[1..]).is_some();
            if has_objects && !strict::surely_unique(text) {
                strict::check(text).map_err(|error| not_json(&error))?;
            }
            slots
        }
        Err(_) => {
            let mut slots = T::empty();
            read_slowly(parameters, text, &mut |index, value| T::set(&mut slots, index, value))?;
            slots
        }
    };
    // If an argument is missing, report all other problems together with it.
    T::finish(slots, parameters.params, cx)
        .map_err(|error| read_slowly(parameters, text, &mut |_, _| {}).err().unwrap_or(error))
}

/// Returns the arguments text. Empty text counts as an empty object.
pub(super) fn given(arguments: &str) -> &str {
    if arguments.trim_ascii().is_empty() { "{}" } else { arguments }
}

/// Returns the names of a call's arguments. Duplicate names are an error.
pub(super) fn names_in(text: &str) -> Result<Vec<Cow<'_, str>>, ToolError> {
    strict::keys(text).map_err(|error| not_json(&error))?.ok_or_else(|| {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        ToolError::invalid_arguments(format!(
            "the arguments must be one JSON object, but were {}",
            shown(&value)
        ))
    })
}

/// Parses the arguments as a JSON object.
pub(super) fn read_object(arguments: &str) -> Result<Value, ToolError> {
    let text = given(arguments);
    names_in(text)?;
    serde_json::from_str(text).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> ToolError {
    // A violation of the strict rules, such as a duplicate key, is a data error: the text is still
    // JSON.
    ToolError::invalid_arguments(match error.classify() {
        Category::Data => format!("the arguments cannot be read: {error}"),
        _ => format!("the arguments are not valid JSON: {error}"),
    })
}

struct FastVisitor<T> {
    parameters: Parameters,
    of: PhantomData<T>,
}

impl<'de, T: ToolParams> Visitor<'de> for FastVisitor<T> {
    type Value = T::Slots;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of arguments")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut slots = T::empty();
        // A function has at most 16 parameters, so the bits of a `u16` suffice.
        let mut seen = 0_u16;
        // Models mostly send arguments in the order of the parameters.
        let mut likely = 0;
        while let Some(index) = map.next_key_seed(Key { parameters: &self.parameters, likely })? {
            likely = index + 1;
            let bit = 1_u16 << (index & 15);
            if seen & bit != 0 {
                return Err(serde::de::Error::custom("an argument is given twice"));
            }
            seen |= bit;
            T::read_into(&mut slots, index, &mut map)?;
        }
        Ok(slots)
    }
}

/// Finds the parameter of a key.
struct Key<'p> {
    parameters: &'p Parameters,
    likely: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an argument's name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<usize, E> {
        self.parameters.find(name, self.likely).ok_or_else(|| E::custom("unknown argument"))
    }
}

/// Reads each argument separately and explains all problems. Accepts integers in the sense of JSON
/// Schema, such as `2.0`, which serde rejects.
fn read_slowly(
    parameters: Parameters,
    text: &str,
    set: &mut dyn FnMut(usize, Box<dyn Any + Send>),
) -> Result<(), ToolError> {
    let shown = parameters.shown();
    let shown: Vec<(usize, &str, &ParamType, bool)> =
        shown.map(|(at, param, of)| (at, param.name, of, param.default.is_some())).collect();
    read_named(&shown, text, set)
}

/// Reads the arguments of parameters without defaults. A missing argument is an error unless its
/// type accepts that.
pub(crate) fn read_each(
    parameters: &[(&'static str, &ParamType)],
    arguments: &str,
) -> Result<Vec<Option<Box<dyn Any + Send>>>, ToolError> {
    let shown = parameters.iter().enumerate();
    let shown: Vec<(usize, &str, &ParamType, bool)> =
        shown.map(|(at, (name, of))| (at, *name, *of, false)).collect();
    let mut values: Vec<Option<Box<dyn Any + Send>>> = parameters.iter().map(|_| None).collect();
    read_named(&shown, given(arguments), &mut |at, value| values[at] = Some(value))?;
    for (value, (_, of)) in values.iter_mut().zip(parameters) {
        *value = value.take().or_else(of.absent);
    }
    Ok(values)
}

/// Maximum number of unknown arguments in an error.
const MOST_UNKNOWN: usize = 20;

/// Reads each argument separately and collects all problems. Each parameter has its position, name,
/// type, and a flag that is `true` if it has a default.
fn read_named(
    shown: &[(usize, &str, &ParamType, bool)],
    text: &str,
    set: &mut dyn FnMut(usize, Box<dyn Any + Send>),
) -> Result<(), ToolError> {
    names_in(text)?;
    // Sorted by name, so that the order of the problems does not depend on the model.
    let arguments: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let mut complaints = Vec::new();
    let mut unknown = 0_usize;
    for (name, value) in &arguments {
        let Some((at, _, of, _)) = shown.iter().find(|(_, of, ..)| of == name) else {
            unknown += 1;
            if unknown <= MOST_UNKNOWN {
                complaints.push(unknown_argument(name, shown.iter().map(|(_, name, ..)| *name)));
            }
            continue;
        };
        match with_integers(value.get(), of.from_json) {
            Ok(value) => set(*at, value),
            Err(Refusal { path, message, seen }) => {
                complaints.push(format!("`{name}{path}`: {message}; seen: {seen}"));
            }
        }
    }
    let missing = shown.iter().filter(|(_, name, of, has_default)| {
        !has_default && !arguments.contains_key(*name) && !of.is_optional()
    });
    complaints.extend(missing.map(|(_, name, ..)| missing_argument(name)));
    if unknown > MOST_UNKNOWN {
        complaints.push(format!(
            "there are {} more arguments that this tool does not have",
            unknown - MOST_UNKNOWN
        ));
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(ToolError::invalid_arguments(complaints.join("\n")))
    }
}

/// Reads a string. If that fails, tries once more with whole numbers such as `2.0` written as
/// integers.
pub(super) fn with_integers<T, E>(text: &str, read: impl Fn(&str) -> Result<T, E>) -> Result<T, E> {
    // If the second attempt fails too, the original error is returned, because it describes the
    // model's text.
    read(text).or_else(|refusal| match strict::with_integers(text) {
        Some(text) => read(&text).map_err(|_| refusal),
        None => Err(refusal),
    })
}

fn missing_argument(name: &str) -> String {
    format!("`{name}`: this argument is missing; give it a value")
}

/// Returns the message for an unknown argument, with the nearest name or all known names.
pub(super) fn unknown_argument<'n>(
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> String {
    match nearest(name, known.clone()) {
        near @ Some(_) => format!("`{name}`: there is no such argument{}", did_you_mean(near)),
        None if known.clone().next().is_none() => format!("`{name}`: this tool takes no arguments"),
        None => format!(
            "`{name}`: there is no such argument; there are {}",
            known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The reason why a type rejected a value.
pub struct Refusal {
    /// Path from the argument to the value, such as `.items[2].price`. Empty for the argument
    /// itself.
    path: String,
    message: String,
    seen: String,
}

impl Refusal {
    fn new(error: serde_path_to_error::Error<serde_json::Error>, argument: &str) -> Self {
        let argument: Value = serde_json::from_str(argument).unwrap_or_default();
        let mut path = String::new();
        let mut at = &argument;
        for segment in error.path() {
            let (step, inner) = match segment {
                Segment::Seq { index } => (format!("[{index}]"), at.get(index)),
                Segment::Map { key } => (format!(".{key}"), at.get(key)),
                Segment::Enum { variant } => (format!(".{variant}"), at.get(variant)),
                Segment::Unknown => break,
            };
            // The value does not have the rest of the path: the missing part belongs here.
            let Some(inner) = inner else { break };
            path.push_str(&step);
            at = inner;
        }
        Self { path, message: strict::message(error.inner()), seen: shown(at) }
    }

    fn injected() -> Self {
        let message = "this parameter is provided by the program, not by the model".to_owned();
        Self { path: String::new(), message, seen: "a value".to_owned() }
    }
}

/// Formats a value for an error message, with at most 120 bytes.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 120 { text } else { format!("{}…", head(&text, 117)) }
}
