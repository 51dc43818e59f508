//! [`all_the_tuples!`]: calls a macro for every supported number of inputs or parameters. The
//! called macro generates the implementations.

/// Calls a macro once for each length from 0 to 12 or 16, with the length and the types and indices
/// of the tuple: `make!(_ 2 A 0 B 1)`. With a list of names in brackets, the macro is called once
/// for each name, which replaces `_`.
macro_rules! all_the_tuples {
    ($make:ident, 12) => {
        $crate::tuples::all_the_tuples!($make, [_ _ _ _ _ _ _ _ _ _ _ _ _]);
    };
    ($make:ident, 16) => {
        $crate::tuples::all_the_tuples!($make, [_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _]);
    };
    ($make:ident, [$($name:tt)*]) => {
        $crate::tuples::all_the_tuples!(
            @next $make [$($name)*] 0 []
            (1 A 0) (2 B 1) (3 C 2) (4 D 3) (5 E 4) (6 F 5) (7 G 6) (8 H 7)
            (9 I 8) (10 J 9) (11 K 10) (12 L 11) (13 M 12) (14 N 13) (15 O 14) (16 P 15)
        );
    };
    (@next $make:ident [] $($rest:tt)*) => {};
    (@next $make:ident [$name:tt] $length:literal [$($done:tt)*] $($rest:tt)*) => {
        $make!($name $length $($done)*);
    };
    (@next $make:ident [$name:tt $($names:tt)*] $length:literal [$($done:tt)*]
        ($next:literal $T:ident $at:tt) $($rest:tt)*
    ) => {
        $make!($name $length $($done)*);
        $crate::tuples::all_the_tuples!(@next $make [$($names)*] $next [$($done)* $T $at] $($rest)*);
    };
}

pub(crate) use all_the_tuples;

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_one_call_for_each_length() {
        let mut seen = Vec::new();
        macro_rules! note {
            ($name:tt $length:literal $($T:ident $at:tt)*) => {
                seen.push((stringify!($name), $length, concat!($(stringify!($T), stringify!($at)),*)))
            };
        }
        all_the_tuples!(note, [zero one two]);
        assert_eq!(seen, [("zero", 0, ""), ("one", 1, "A0"), ("two", 2, "A0B1")]);
        seen.clear();
        all_the_tuples!(note, 16);
        assert_eq!(seen.len(), 17);
        assert_eq!(seen.last().unwrap().1, 16);
        seen.clear();
        all_the_tuples!(note, 12);
        assert_eq!((seen.len(), seen.last().unwrap().1), (13, 12));
    }
}
