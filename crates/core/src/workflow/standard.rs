//! Distinguishes methods of the standard library from methods of the same name on a program's own
//! types. A method of the standard library returns the same value each time that it is called on a
//! recorded value. Other methods may not, so their value is computed once and recorded.
//!
//! The macro sees names only. It generates code in which method resolution decides: an inherent
//! method takes precedence over a method of a trait. Only [`Chosen`] is executed in a workflow. The
//! rest serves type inference.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{
    BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque, btree_map, btree_set, hash_map,
    hash_set, vec_deque,
};
use std::ffi::{OsStr, OsString};
use std::iter;
use std::marker::PhantomData;
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{option, slice, str, vec};

use serde_json::{Map, Number, Value};

use super::node::Node;
use super::node_handle::{ComputedAgain, Handle, Reads};
use super::owned_output::Borrowing;
use super::steps::Steps;
use crate::run::Approval;
use crate::value::NodeValue;

/// Condition of code that is type-checked and never executed.
pub const NEVER: bool = false;

mod sealed {
    pub trait Sealed {}
}

/// Types whose methods depend only on their values. Types with interior mutability and types of a
/// program are excluded.
pub trait Standard: sealed::Sealed {}

impl<T: sealed::Sealed + ?Sized> Standard for T {}

macro_rules! standard {
    ($($({$($T:ident),*})? $of:ty;)*) => {
        $(impl$(<$($T),*>)? sealed::Sealed for $of {})*
    };
}

standard! {
    (); bool; char; str; String; f32; f64;
    i8; i16; i32; i64; i128; isize; u8; u16; u32; u64; u128; usize;
    Ordering; Duration; SystemTime; Path; PathBuf; OsStr; OsString;
    Value; Number; Map<String, Value>; Approval;
    {T} [T]; {T} Vec<T>; {T} VecDeque<T>; {T} BinaryHeap<T>; {T} Option<T>; {T, E} Result<T, E>;
    {K, V} BTreeMap<K, V>; {T} BTreeSet<T>; {K, V, S} HashMap<K, V, S>; {T, S} HashSet<T, S>;
    {A} (A,); {A, B} (A, B); {A, B, C} (A, B, C); {A, B, C, D} (A, B, C, D);
    {T} Range<T>; {T} RangeInclusive<T>; {T} RangeFrom<T>; {T} RangeTo<T>; {T} RangeToInclusive<T>;
    {T} slice::Iter<'_, T>; {T} slice::IterMut<'_, T>; {T} slice::Chunks<'_, T>; {T} slice::Windows<'_, T>;
    {T} vec::IntoIter<T>; {T} vec_deque::IntoIter<T>; {T} vec_deque::Iter<'_, T>;
    {T} option::IntoIter<T>; {T} option::Iter<'_, T>;
    {K, V} btree_map::Iter<'_, K, V>; {K, V} btree_map::IntoIter<K, V>; {K, V} btree_map::Keys<'_, K, V>;
    {K, V} btree_map::Values<'_, K, V>; {K, V} btree_map::IntoKeys<K, V>; {K, V} btree_map::IntoValues<K, V>;
    {T} btree_set::Iter<'_, T>; {T} btree_set::IntoIter<T>;
    {K, V} hash_map::Iter<'_, K, V>; {K, V} hash_map::IntoIter<K, V>; {K, V} hash_map::Keys<'_, K, V>;
    {K, V} hash_map::Values<'_, K, V>; {K, V} hash_map::IntoKeys<K, V>; {K, V} hash_map::IntoValues<K, V>;
    {T} hash_set::Iter<'_, T>; {T} hash_set::IntoIter<T>;
    str::Chars<'_>; str::CharIndices<'_>; str::Bytes<'_>; str::Lines<'_>; str::SplitWhitespace<'_>;
    str::SplitAsciiWhitespace<'_>; str::Split<'_, char>; str::Split<'_, &str>; str::SplitN<'_, char>;
    str::SplitN<'_, &str>; str::RSplit<'_, char>; str::RSplit<'_, &str>;
    {I, F} iter::Map<I, F>; {I, F} iter::Filter<I, F>; {I, F} iter::FilterMap<I, F>; {I} iter::Enumerate<I>;
    {I} iter::Rev<I>; {A, B} iter::Zip<A, B>; {A, B} iter::Chain<A, B>; {I} iter::Take<I>; {I} iter::Skip<I>;
    {I, F} iter::TakeWhile<I, F>; {I, F} iter::SkipWhile<I, F>; {I} iter::StepBy<I>; {I} iter::Cloned<I>;
    {I} iter::Copied<I>; {T} iter::Once<T>; {T} iter::Empty<T>; {T} iter::Repeat<T>;
}

impl<T, const N: usize> sealed::Sealed for [T; N] {}
impl<T: Standard + ?Sized> sealed::Sealed for &T {}
impl<T: Standard + ?Sized> sealed::Sealed for &mut T {}
impl<T: Standard + ?Sized> sealed::Sealed for Box<T> {}
impl<T: Standard + ?Sized> sealed::Sealed for Rc<T> {}
impl<T: Standard + ?Sized> sealed::Sealed for Arc<T> {}
impl<T: Standard + ToOwned + ?Sized> sealed::Sealed for Cow<'_, T> {}
impl<I: Iterator> sealed::Sealed for iter::Peekable<I> {}
impl<I: Iterator<Item: IntoIterator>> sealed::Sealed for iter::Flatten<I> {}
impl<I, U: IntoIterator, F> sealed::Sealed for iter::FlatMap<I, U, F> {}

/// A type of the standard library.
pub struct IsStandard;

/// Any other type.
pub struct IsOther;

/// The receiver of a method call.
pub struct Receiver<'r, T: ?Sized>(pub &'r T);

impl<T: Standard + ?Sized> Receiver<'_, T> {
    pub fn kind(&self) -> IsStandard {
        IsStandard
    }
}

pub trait OtherReceiver {
    fn kind(&self) -> IsOther {
        IsOther
    }
}

impl<T: ?Sized> OtherReceiver for Receiver<'_, T> {}

/// A type that a path names.
pub struct Named<T: ?Sized>(pub PhantomData<T>);

impl<T: Standard + ?Sized> Named<T> {
    pub fn kind(&self) -> IsStandard {
        IsStandard
    }
}

pub trait OtherNamed {
    fn kind(&self) -> IsOther {
        IsOther
    }
}

impl<T: ?Sized> OtherNamed for Named<T> {}

/// The inferred kind of a receiver: [`IsStandard`] or [`IsOther`].
pub struct Told<K>(PhantomData<fn() -> K>);

pub fn told<K>() -> Told<K> {
    Told(PhantomData)
}

impl<K> Clone for Told<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Told<K> {}

pub trait Answer {
    const IS_STANDARD: bool;
}

impl Answer for IsStandard {
    const IS_STANDARD: bool = true;
}

impl Answer for IsOther {
    const IS_STANDARD: bool = false;
}

impl<K> Told<K> {
    /// Fixes `K` by inference. It is called only in code that is never executed.
    pub fn tell(self, _: K) -> ! {
        unreachable!("what asks for a type has run")
    }
}

impl<K: Answer> Told<K> {
    pub fn is_standard(self) -> bool {
        K::IS_STANDARD
    }
}

/// Receivers, as nested pairs, that are all of the standard library.
pub trait AllStandard {}

impl AllStandard for () {}
impl AllStandard for Told<IsStandard> {}
impl<A: AllStandard, B: AllStandard> AllStandard for (A, B) {}

/// A value with the kinds of the receivers of its methods. Four traits have a method `recorded`,
/// each for a different number of references, so that method resolution takes the first trait that
/// applies.
pub struct Looked<K, T> {
    value: T,
    told: PhantomData<K>,
}

pub fn looked<K, T>(_: K, value: T) -> Looked<K, Option<T>> {
    Looked { value: Some(value), told: PhantomData }
}

/// A value that is computed once.
pub struct Once<T>(T);

pub trait OfStandard {
    fn recorded(self) -> ComputedAgain;
}

impl<K: AllStandard, T> OfStandard for &mut &mut &mut Looked<K, T> {
    fn recorded(self) -> ComputedAgain {
        ComputedAgain
    }
}

pub trait OfBorrow {
    fn recorded(self) -> ComputedAgain;
}

impl<K, T: Borrowing> OfBorrow for &mut &mut Looked<K, Option<T>> {
    fn recorded(self) -> ComputedAgain {
        ComputedAgain
    }
}

pub trait OfOwned<T> {
    fn recorded(self) -> Once<T>;
}

impl<K, T: NodeValue> OfOwned<T> for &mut Looked<K, Option<T>> {
    fn recorded(self) -> Once<T> {
        match self.value.take() {
            Some(value) => Once(value),
            None => unreachable!("a value is recorded once"),
        }
    }
}

pub trait OfAnything {
    fn recorded(&self) -> ComputedAgain;
}

impl<K, T> OfAnything for Looked<K, T> {
    fn recorded(&self) -> ComputedAgain {
        ComputedAgain
    }
}

/// Adds a value to a workflow: as a node that records it, or as a placeholder.
pub trait LookOutput {
    type Value;

    fn add<E, R, B>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<Self::Value>
    where
        E: 'static,
        R: Reads,
        B: Fn(R::Values) -> Result<Self, E> + Send + Sync + 'static,
        Self: Sized;
}

impl LookOutput for ComputedAgain {
    type Value = Self;

    fn add<E, R, B>(_: &mut Steps<'_, E>, _: Node, _: R, _: B) -> Handle<Self>
    where
        E: 'static,
        R: Reads,
        B: Fn(R::Values) -> Result<Self, E> + Send + Sync + 'static,
    {
        Handle::again()
    }
}

impl<T: NodeValue> LookOutput for Once<T> {
    type Value = T;

    fn add<E, R, B>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<T>
    where
        E: 'static,
        R: Reads,
        B: Fn(R::Values) -> Result<Self, E> + Send + Sync + 'static,
    {
        steps.value(node, reads, move |values| body(values).map(|Self(value)| value))
    }
}

impl<E: 'static> Steps<'_, E> {
    /// Adds a value. Each reader computes it again if the result is known to be the same; otherwise
    /// a node records it.
    pub fn look<R, O, B>(&mut self, node: Node, reads: R, body: B) -> Handle<O::Value>
    where
        R: Reads,
        O: LookOutput,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        O::add(self, node, reads, body)
    }
}

/// The recorded value that a reader uses, or a placeholder if the reader computes the value again.
pub struct Chosen<V>(pub V);

impl Chosen<ComputedAgain> {
    pub fn value<T>(self) -> Option<T> {
        None
    }
}

pub trait ChosenOnce {
    type Value;

    fn value(self) -> Option<Self::Value>;
}

impl<V> ChosenOnce for Chosen<V> {
    type Value = V;

    fn value(self) -> Option<V> {
        Some(self.0)
    }
}
