/// A `let` without a step is repeated by its readers, also after a name is bound again. One that nothing reads is written
/// once, for the compiler's warnings.
#[allow(clippy::used_underscore_binding)]
async fn glue(a: String, b: u32) -> Result<String> {
    <glue as __private::WorkflowFn2>::run(__private::None, (a, b)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct glue {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for glue {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl glue {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok> {
            <glue as __private::WorkflowFn2>::workflow()
        }
    }
    impl __private::WorkflowFn2 for glue {
        #[allow(deprecated)]
        type A = String;
        #[allow(deprecated)]
        type B = u32;
        type Return = __private::Result<
            <glue as __private::WorkflowTypes>::Ok,
            <glue as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "glue";
        const INPUTS: [&'static str; 2usize] = ["a", "b"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <glue as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <glue as __private::WorkflowTypes>::Error>>::of_type())
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
        fn nodes(
            steps: &mut __private::Steps<'_, <glue as __private::WorkflowTypes>::Error>,
            (a, b): (__private::Handle<Self::A>, __private::Handle<Self::B>),
        ) -> __private::Handle<<glue as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <glue as __private::WorkflowTypes>::Error;
            steps
                .describe(
                    "A `let` without a step is repeated by its readers, also after a name is bound again. One that nothing reads is written\nonce, for the compiler's warnings.",
                );
            let bound_2 = {
                let told_0 = __private::told();
                let told_1 = __private::told();
                let told_2 = __private::told();
                steps
                    .let_value::<_, _, _>(
                        __private::Node::new("length")
                            .line(::core::line!())
                            .code(3437873407671074428u64)
                            .at_its_place_unless([
                                told_0.is_standard(),
                                told_1.is_standard(),
                                told_2.is_standard(),
                            ]),
                        (a, b),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (a, b) = values;
                            __private::Ok::<_, __AgentflowError>(
                                (
                                    if __private::NEVER {
                                        told_1.tell(__private::Receiver(&a.len()).kind())
                                    },
                                    (
                                        if __private::NEVER {
                                            told_2.tell(__private::Receiver(&b).kind())
                                        },
                                        (
                                            if __private::NEVER {
                                                told_0.tell(__private::Receiver(&a).kind())
                                            },
                                            a.len(),
                                        )
                                            .1 + b,
                                    )
                                        .1,
                                )
                                    .1,
                            )
                        },
                    )
            };
            let length = bound_2;
            let bound_3 = {
                let told_0 = __private::told();
                steps
                    .let_value::<_, _, _>(
                        __private::Node::new("unread")
                            .line(::core::line!())
                            .code(13858541334941445u64)
                            .calls("len")
                            .at_its_place_unless([told_0.is_standard()]),
                        (a,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (a,) = values;
                            __private::Ok::<_, __AgentflowError>(
                                __private::LetOutput(
                                        (
                                            if __private::NEVER {
                                                told_0.tell(__private::Receiver(&a).kind())
                                            },
                                            a.len(),
                                        )
                                            .1,
                                    )
                                    .bound()
                                    .value(),
                            )
                        },
                    )
            };
            let unread = bound_3;
            let output_4 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("x_y")
                        .line(::core::line!())
                        .code(1567511410354756875u64)
                        .calls("pair")
                        .direct()
                        .text("pair(a)"),
                    (a,),
                    move |args| async move {
                        let agentflow_call_0 = pair;
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
            let bound_6 = steps
                .let_value::<_, _, _>(
                    __private::Node::new("text")
                        .line(::core::line!())
                        .code(4165913464549503207u64),
                    (length, output_4),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (length, output_4) = values;
                        #[allow(unused_variables, unused_mut)]
                        let (x, y) = output_4;
                        __private::Ok::<_, __AgentflowError>(format!("{length} {y}"))
                    },
                );
            let text = bound_6;
            let bound_7 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("second")
                        .line(::core::line!())
                        .code(12486432265407145785u64)
                        .calls("step")
                        .direct()
                        .text("step(text)"),
                    (text,),
                    move |args| async move {
                        let agentflow_call_0 = step;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (text,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(text).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let a_7 = bound_7;
            let bound_8 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("last")
                        .line(::core::line!())
                        .code(9282264536538875374u64)
                        .calls("step")
                        .direct()
                        .text("step(a, length)"),
                    (length, a_7),
                    move |args| async move {
                        let agentflow_call_0 = step;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (length, a)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(a, length).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let last = bound_8;
            steps
                .unread(
                    (output_4,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (output_4,) = values;
                        let (x, y) = output_4;
                        let _ = &y;
                    },
                );
            let last: __private::Handle<<Result<String> as __private::WorkflowReturn>::Ok> = steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(13508621595172944747u64),
                    (last,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (last,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(last);
                            ended
                        }
                    },
                );
            __private::Output(&bound_2).owned();
            __private::Output(&bound_3).owned();
            __private::Output(&output_4).owned();
            __private::Output(&bound_6).owned();
            __private::Output(&bound_7).owned();
            __private::Output(&bound_8).owned();
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        glue) }, item : || __private::Box::new(__private::LinkedWorkflow::new("glue",
        (__private::file!(), __private::line!()), < glue as __private::WorkflowFn2 >
        ::GRAPH)), }
    }
};
