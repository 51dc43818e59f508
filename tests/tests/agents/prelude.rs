//! Name conflicts with the prelude: a program's own macros, and a glob import of another crate. The
//! main assertion is that this file compiles without warnings.

#![deny(warnings)]

mod others {
    //! A library whose macros have the same names as the forms.
    macro_rules! timeout {
        () => {
            "timeout"
        };
    }
    macro_rules! gate {
        ($n:expr) => {
            $n
        };
    }
    pub(super) use {gate, timeout};
}

macro_rules! map {
    ($list:expr, $each:expr) => {
        $list.into_iter().map($each).collect::<Vec<u32>>()
    };
}

mod own_macros {
    use agentflow::prelude::*;

    macro_rules! race {
        ($first:expr, $second:expr) => {
            $first.min($second)
        };
    }

    pub(super) fn doubled() -> Result<Vec<u32>> {
        Ok(map!([1, race!(3, 2)], |n| n * 2))
    }

    pub(super) fn of_std(fails: bool) -> Result<(), &'static str> {
        if fails { Err("std") } else { Ok(()) }
    }
}

mod globs {
    use agentflow::prelude::*;
    use tokio::time::*;
    use tokio::*;

    use super::others::*;

    pub(super) async fn joined() -> Result<(u32, &'static str)> {
        let (one, two) = join!(async { gate!(1) }, timeout(Duration::from_secs(1), async { 2 }));
        sleep(Duration::ZERO).await;
        Ok((one + two.unwrap_or_default(), timeout!()))
    }
}

mod forms {
    //! The forms need no import.
    use agentflow::prelude::*;

    async fn one_more(n: u32) -> Result<u32> {
        Ok(n + 1)
    }

    #[workflow]
    pub(super) async fn sums(cx: &Context, numbers: Vec<u32>) -> Result<u32> {
        let more = map!(numbers, |n| one_more(n)).await?;
        let sum = one_more(more.iter().sum()).await?;
        Ok(sum)
    }
}

#[tokio::test]
async fn names_of_a_program_and_of_others_stay_theirs() {
    assert_eq!(own_macros::doubled().unwrap(), [2, 4]);
    assert_eq!((own_macros::of_std(true), own_macros::of_std(false)), (Err("std"), Ok(())));
    assert_eq!(globs::joined().await.unwrap(), (3, "timeout"));
    let runtime = agentflow::Runtime::default();
    assert_eq!(forms::sums(&runtime.context(), vec![1, 2]).await.unwrap(), 6);
}
