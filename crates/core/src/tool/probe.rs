//! Finds parameters that a model should not fill in: types that change through a shared reference, such as `Mutex`.
//! Serde and schemars look through them, so the model would be asked for the contents and each call would get a new
//! value.
//!
//! It finds the types by method resolution and not by name: an inherent associated constant takes precedence over a
//! trait's.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize,
};
use std::sync::{Arc, Mutex, RwLock};

/// Asks of the type of a parameter how it is filled in: `Probe::<T>::FILLED`.
pub struct Probe<T: ?Sized>(PhantomData<T>);

/// By the model, or by the program with an [`Inject`](crate::Inject).
#[derive(Clone, Copy)]
pub struct Value;

/// By nobody.
pub struct SharedState<T: ?Sized>(PhantomData<T>);

pub trait Probed {
    const FILLED: Value = Value;
}

impl<T: ?Sized> Probed for Probe<T> {}

macro_rules! shared {
    ($([$($T:ident)?] $Type:ty)*) => {
        $(
            impl$(<$T: ?Sized>)? Probe<$Type> {
                pub const FILLED: SharedState<$Type> = SharedState(PhantomData);
            }

            impl$(<$T: ?Sized>)? Probe<Arc<$Type>> {
                pub const FILLED: SharedState<Arc<$Type>> = SharedState(PhantomData);
            }
        )*
    };
}

shared! {
    [T] Mutex<T> [T] RwLock<T> [T] RefCell<T> [T] Cell<T>
    [] AtomicBool [] AtomicI8 [] AtomicI16 [] AtomicI32 [] AtomicI64 [] AtomicIsize
    [] AtomicU8 [] AtomicU16 [] AtomicU32 [] AtomicU64 [] AtomicUsize
}

/// What the answer to [`Probe`] must be.
#[diagnostic::on_unimplemented(
    message = "a tool's parameter cannot be state that is shared",
    label = "the model would be asked for what is inside, and each call would get one of its own",
    note = "for what the program shares with its tools, take `Inject<..>` of it, as in `Inject<Mutex<T>>`, and give the \
            agent or its runtime a `.resource(..)`",
    note = "for an argument of the call, take what is inside by value"
)]
pub trait Filled: Copy {}

#[diagnostic::do_not_recommend]
impl Filled for Value {}
