//! Checks at compile time that what a node gives owns its data. It exists only for the compiler's messages; it
//! converts nothing.
//!
//! `&str` has all traits of a value, for some lifetime, so the compiler would report the lifetimes of our code. A borrow is
//! found by method resolution: an inherent method takes precedence over a trait's.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;

use super::node_handle::Handle;

/// The output of a node, when all of the body is known.
pub struct Output<'h, H>(pub &'h H);

/// What is not borrowed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is borrowed, and what a workflow binds is recorded, so it owns its data",
    label = "record a copy with `.to_owned()`, or borrow where it is read",
    note = "within an `Option`, write `.map(str::to_owned)`; of a tuple, a list, a set or a map, copy each part",
    note = "a function of your own returns `String` for `&str`"
)]
pub trait OwnedOutput {}

/// What serde reads back as a borrow. Of any other reference, it reports itself that there is no such value.
pub trait ReadAsBorrow {}

impl ReadAsBorrow for str {}
impl ReadAsBorrow for [u8] {}
impl ReadAsBorrow for Path {}

/// A borrow, or something that holds one.
pub trait Borrowing {
    type Itself;
}

impl<T: ReadAsBorrow + ?Sized> Borrowing for &T {
    type Itself = Self;
}

/// Collections of borrows are borrows.
macro_rules! borrowing_collections {
    ($($collection:ty where $($param:ident),*;)*) => {
        $(impl<T: Borrowing $(, $param)*> Borrowing for $collection {
            type Itself = Self;
        })*
    };
}

borrowing_collections! {
    Option<T> where;
    Vec<T> where;
    VecDeque<T> where;
    BTreeSet<T> where;
    HashSet<T, S> where S;
    BTreeMap<T, V> where V;
    HashMap<T, V, S> where V, S;
    BTreeMap<String, T> where;
    HashMap<String, T, S> where S;
    (T, U) where U;
}

impl<T: Borrowing, const N: usize> Borrowing for [T; N] {
    type Itself = Self;
}

// One `impl` for all of them, so that the compiler has no choice to report where a type is unknown by a mistake.
impl<O: Borrowing> Output<'_, Handle<O>> {
    pub fn owned(&self)
    where
        O::Itself: OwnedOutput,
    {
    }
}

/// Everything else.
pub trait OtherOutput {
    fn owned(&self) {}
}

impl<H> OtherOutput for Output<'_, H> {}
