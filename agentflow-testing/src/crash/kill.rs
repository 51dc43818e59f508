//! `KillTest`: kills a real process at random moments, starts it again, and compares what it prints.
//!
//! It knows nothing of the process's work, and ends only processes that it started, by their own handles.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a process has ended.
const TICK: Duration = Duration::from_millis(1);

/// Kills a process at random moments and starts it again until it ends by itself; what it then prints must be what it
/// prints when nobody kills it.
///
/// The command starts a run in a store, or resumes the one that is there, and prints its outcome. On Unix the
/// process is killed with SIGKILL, elsewhere with what [`Child::kill`] does.
///
/// ```no_run
/// use std::process::Command;
///
/// use agentflow_testing::KillTest;
///
/// let folder = std::env::temp_dir();
/// let report = KillTest::new(|round| {
///     let mut command = Command::new("target/debug/nightly-report");
///     command.arg("--store").arg(folder.join(format!("{round}.db")));
///     command
/// })
/// .rounds(20)
/// .run();
/// println!("{report}");
/// ```
#[must_use = "a test does nothing until `run`"]
pub struct KillTest<'a> {
    command: Box<dyn FnMut(usize) -> Command + 'a>,
    check: Box<dyn FnMut(usize) -> Result<(), String> + 'a>,
    rounds: usize,
    kills: usize,
    seed: u64,
    limit: Duration,
}

/// What a [`KillTest`] saw.
#[derive(Clone, Debug)]
pub struct KillReport {
    seed: u64,
    rounds: usize,
    processes: usize,
    kills: Vec<Duration>,
    undisturbed: Duration,
    output: String,
}

/// How one process ended that did not fail.
enum Ended {
    ByItself { printed: String, after: Duration },
    Killed,
}

impl<'a> KillTest<'a> {
    /// Of a command, made anew for each process. Its argument is the round, from 0: each round has a store of its own,
    /// and all processes of a round have the same. Round 0 is not disturbed.
    pub fn new(command: impl FnMut(usize) -> Command + 'a) -> Self {
        Self {
            command: Box::new(command),
            check: Box::new(|_| Ok(())),
            rounds: 20,
            kills: 1,
            seed: fastrand::u64(..),
            limit: Duration::from_secs(60),
        }
    }

    /// How many runs are disturbed. Default: 20.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// How many times at most the process of one round is killed. Default: once.
    pub fn kills(mut self, kills: usize) -> Self {
        self.kills = kills;
        self
    }

    /// Where the moments come from, as parts of the time that a process takes: the same seed tries the same parts.
    /// Default: another one each time; it is in the report and in every failure.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The longest that one process may take. Default: one minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Looks at what a round has left behind, once its last process has ended: an `Err` fails the test.
    pub fn check(mut self, check: impl FnMut(usize) -> Result<(), String> + 'a) -> Self {
        self.check = Box::new(check);
        self
    }

    /// Makes all the rounds, on the caller's thread.
    ///
    /// # Panics
    /// When a process cannot be started, fails, takes too long or prints something else, or the check fails; with the
    /// seed, the round and the moments.
    pub fn run(mut self) -> KillReport {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (output, mut undisturbed) = match self.process(0, None) {
            Ok(Ended::ByItself { printed, after }) => (printed, after),
            Ok(Ended::Killed) => unreachable!("round 0 has no moment to be killed at"),
            Err(problem) => self.fail(0, &[], &problem),
        };
        if let Err(problem) = (self.check)(0) {
            self.fail(0, &[], &problem);
        }
        let (seed, rounds) = (self.seed, self.rounds);
        let mut report = KillReport { seed, rounds, processes: 1, kills: Vec::new(), undisturbed, output };
        for round in 1..=self.rounds {
            let mut moments = Vec::new();
            loop {
                let longest = u64::try_from(undisturbed.as_micros()).unwrap_or(u64::MAX).max(1);
                let moment = Duration::from_micros(random.u64(0..longest));
                let cut = (moments.len() < self.kills).then_some(moment);
                report.processes += 1;
                match self.process(round, cut) {
                    Ok(Ended::Killed) => moments.push(moment),
                    Ok(Ended::ByItself { printed, after }) if printed == report.output => {
                        // The first process of all pays for a cold machine: a moment after the end kills nobody.
                        if moments.is_empty() {
                            undisturbed = undisturbed.min(after);
                        }
                        break;
                    }
                    Ok(Ended::ByItself { printed, .. }) => {
                        let problem = format!(
                            "it printed something else\n  undisturbed: {:?}\n  here: {printed:?}",
                            report.output
                        );
                        self.fail(round, &moments, &problem);
                    }
                    Err(problem) => self.fail(round, &moments, &problem),
                }
            }
            if let Err(problem) = (self.check)(round) {
                self.fail(round, &moments, &problem);
            }
            report.kills.extend(moments);
        }
        report.undisturbed = undisturbed;
        report
    }

    fn fail(&self, round: usize, moments: &[Duration], problem: &str) -> ! {
        let when: Vec<String> = moments.iter().map(|moment| format!("{moment:?}")).collect();
        let when = match when.is_empty() {
            true => "without a kill".to_owned(),
            false => format!("killed after {}", when.join(", then after ")),
        };
        panic!("round {round} of seed {}, {when}: {problem}", self.seed);
    }

    /// One process, from its start to its end.
    fn process(&mut self, round: usize, kill_after: Option<Duration>) -> Result<Ended, String> {
        let mut command = (self.command)(round);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("`{command:?}` could not be started: {error}"))?;
        let mut running = Running(child);
        let began = Instant::now();
        let (stdout, stderr) = (read_all(running.0.stdout.take()), read_all(running.0.stderr.take()));
        let (status, after) = loop {
            let ended = running.0.try_wait().map_err(|error| format!("the process cannot be waited for: {error}"))?;
            let passed = began.elapsed();
            match ended {
                Some(status) => break (status, passed),
                None if kill_after.is_some_and(|moment| passed >= moment) => {
                    running.end();
                    return Ok(Ended::Killed);
                }
                None if passed >= self.limit => {
                    running.end();
                    let said =
                        String::from_utf8_lossy(&stderr.recv_timeout(self.limit).unwrap_or_default()).into_owned();
                    return Err(format!("the process had no end after {:?}\n{said}", self.limit));
                }
                None => thread::sleep(TICK.min(kill_after.map_or(TICK, |moment| moment.saturating_sub(passed)))),
            }
        };
        let text = |bytes: mpsc::Receiver<Vec<u8>>| {
            // A process that it started itself may still hold the other end.
            String::from_utf8_lossy(&bytes.recv_timeout(self.limit).unwrap_or_default()).into_owned()
        };
        let (printed, said) = (text(stdout), text(stderr));
        match status.success() {
            true => Ok(Ended::ByItself { printed, after }),
            false => Err(format!("the process ended with {status}\n{printed}\n{said}")),
        }
    }
}

/// Reads to the end on a thread, so that the process never waits for a reader.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, bytes) = mpsc::channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut all));
        // Nobody waits for what a killed process said.
        let _ = read.and_then(|_| sender.send(all).map_err(io::Error::other));
    });
    bytes
}

/// A process that does not outlive the test, whatever happens to that.
struct Running(Child);

impl Running {
    fn end(&mut self) {
        // One that has just ended by itself cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl KillReport {
    /// The seed; with it the same moments are tried again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many processes were killed. One that ends before its moment is not.
    pub fn kills(&self) -> usize {
        self.kills.len()
    }

    /// How many processes were started.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// What each round printed in the end.
    pub fn output(&self) -> &str {
        &self.output
    }
}

impl fmt::Display for KillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} rounds, {} processes, {} of them killed; undisturbed one takes {:?}",
            self.seed,
            self.rounds,
            self.processes,
            self.kills.len(),
            self.undisturbed
        )?;
        match (self.kills.iter().min(), self.kills.iter().max()) {
            (Some(first), Some(last)) => write!(f, "; killed between {first:?} and {last:?}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for KillTest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillTest").field("rounds", &self.rounds).field("seed", &self.seed).finish_non_exhaustive()
    }
}
