#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cassette;
mod check;
mod crash;
mod diff;
mod expect;
mod facts;
mod fake_provider;
mod hold_time;
mod memory;
mod mocks;
mod model;
mod run_error;
mod scripted_a2a;
mod scripted_mcp;
mod scripted_mcp_answer;
mod show;
mod store;
mod time;
mod trace;
mod turn;
mod within;

pub use crate::cassette::{Cassette, CassetteError};
pub use crate::check::{EventProblems, check_events};
pub use crate::crash::{
    Again, CrashReport, CrashTest, EffectLog, Interruption, KillReport, KillTest, StepReport,
};
pub use crate::facts::{RecordedToolCall, Totals, calls_of, final_text, happened_before, totals};
pub use crate::fake_provider::{FakeProvider, FakeReply, ProviderFormat};
pub use crate::hold_time::{HoldsTime, hold_time};
pub use crate::memory::check_memory;
pub use crate::mocks::{Call, Calls, ExpectedQuestion, Mocks};
pub use crate::model::ScriptedModel;
pub use crate::scripted_a2a::{A2aTurn, ScriptedA2a};
pub use crate::scripted_mcp::ScriptedMcp;
pub use crate::scripted_mcp_answer::McpAnswer;
pub use crate::store::{StoreCheck, StorePart, check_store, check_store_reopened};
pub use crate::time::{TestClock, sequential_ids, test_runtime};
pub use crate::trace::{TraceLines, assert_trace, trace};
pub use crate::turn::Turn;
pub use crate::within::{wait_until, within};
