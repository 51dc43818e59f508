/// Lint levels are written before all statements that hold the user's code.
#[allow(clippy::pedantic)]
#[allow(clippy::used_underscore_binding)]
async fn lints(#[allow(unused)] a: u32) -> Result<u32> {
    <lints as __private::WorkflowFn1>::run(__private::None, (a,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct lints {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for lints {
        type Ok = <Result<u32> as __private::WorkflowReturn>::Ok;
        type Error = <Result<u32> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl lints {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(u32,), <lints as __private::WorkflowTypes>::Ok> {
            <lints as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for lints {
        #[allow(deprecated)]
        type A = u32;
        type Return = __private::Result<
            <lints as __private::WorkflowTypes>::Ok,
            <lints as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "lints";
        const INPUTS: [&'static str; 1usize] = ["a"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(u32,), <lints as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(u32,), <lints as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <lints as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <lints as __private::WorkflowTypes>::Error>>::of_type())
                .agentflow_error()
        }
        #[allow(
            unused_braces,
            clippy::needless_question_mark,
            clippy::no_effect_underscore_binding,
            clippy::too_many_lines,
            clippy::used_underscore_binding,
            clippy::zero_prefixed_literal
        )]
        #[allow(clippy::pedantic)]
        fn nodes(
            steps: &mut __private::Steps<'_, <lints as __private::WorkflowTypes>::Error>,
            (a,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<lints as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <lints as __private::WorkflowTypes>::Error;
            #[allow(unused)]
            let a = a;
            steps
                .describe(
                    "Lint levels are written before all statements that hold the user's code.",
                );
            #[expect(deprecated)]
            let output_1 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("x_y")
                        .line(::core::line!())
                        .code(9730393407849280245u64)
                        .calls("step")
                        .direct()
                        .text("step(a)"),
                    (a,),
                    move |args| async move {
                        let agentflow_call_0 = step;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (a,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(a).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let z = {
                let router = steps
                    .route(
                        __private::Node::new("z")
                            .line(::core::line!())
                            .code(10417650714096689442u64)
                            .calls("match x"),
                        &["1", "else"],
                        (output_1,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (output_1,) = values;
                            #[allow(unused_variables, unused_mut)]
                            #[expect(deprecated)]
                            let (x, y) = output_1;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::match_same_arms,
                                clippy::needless_bool
                            )]
                            let chosen: &'static str = match x {
                                #[allow(deprecated)]
                                1 => "1",
                                _ => "else",
                            };
                            __private::Ok::<&'static str, __AgentflowError>(chosen)
                        },
                    );
                let arms = __private::arms::<_>();
                #[allow(deprecated)]
                let arm = steps
                    .arm(
                        router,
                        "1",
                        |steps| {
                            steps
                                .step::<_, _, _, _>(
                                    __private::Node::new("step")
                                        .line(::core::line!())
                                        .code(13412785069903838654u64)
                                        .calls("step")
                                        .direct()
                                        .text("step(y)"),
                                    (output_1,),
                                    move |args| async move {
                                        let agentflow_call_0 = step;
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (cx, (output_1,)) = args
                                            .calling([__private::function_id(&agentflow_call_0)])
                                            .await;
                                        #[allow(unused_variables, unused_mut)]
                                        #[expect(deprecated)]
                                        let (x, y) = output_1;
                                        __private::Ok::<_, __AgentflowError>(
                                            __private::TriedStep(agentflow_call_0(y).await)
                                                .failing::<__AgentflowError>()?,
                                        )
                                    },
                                )
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                let arm = steps
                    .arm(
                        router,
                        "else",
                        |steps| {
                            steps
                                .value::<_, _, _>(
                                    __private::Node::new("yield")
                                        .line(::core::line!())
                                        .code(3440368199005707862u64),
                                    (output_1,),
                                    move |values| {
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (output_1,) = values;
                                        #[allow(unused_variables, unused_mut)]
                                        #[expect(deprecated)]
                                        let (x, y) = output_1;
                                        __private::Ok::<_, __AgentflowError>(y)
                                    },
                                )
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                steps.join(router, arms)
            };
            #[allow(deprecated)]
            let last: __private::Handle<<Result<u32> as __private::WorkflowReturn>::Ok> = steps
                .step::<_, _, _, _>(
                    __private::Node::new("end")
                        .line(::core::line!())
                        .code(12952349512833801435u64)
                        .calls("step")
                        .retry(2)
                        .direct()
                        .text("step(z)"),
                    (z,),
                    move |args| async move {
                        let agentflow_call_0 = step;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (z,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<u32> = agentflow_call_0(z).await;
                            ended
                        }
                    },
                );
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        lints) }, item : || __private::Box::new(__private::LinkedWorkflow::new("lints",
        (__private::file!(), __private::line!()), < lints as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
