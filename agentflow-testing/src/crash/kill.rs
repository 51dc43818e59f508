//! Implements `KillTest`, which kills a real process at random times, restarts it, and compares its
//! output.
//!
//! It only ends processes that it started, through their own handles.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks for the end of a process.
const TICK: Duration = Duration::from_millis(1);

/// Kills a process at random times and restarts it until it completes. Its output must then equal
/// the output of a process that was not killed.
///
/// The command must start a run in a store, or resume the run that the store contains, and print
/// the outcome. On Unix the process is killed with SIGKILL, on other systems with [`Child::kill`].
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

/// The results of a [`KillTest`].
#[derive(Clone, Debug)]
pub struct KillReport {
    seed: u64,
    rounds: usize,
    processes: usize,
    kills: Vec<Duration>,
    undisturbed: Duration,
    output: String,
}

/// The end of a process that did not fail.
enum ProcessEnd {
    ByItself { printed: String, after: Duration },
    Killed,
}

impl<'a> KillTest<'a> {
    /// Creates a test of a command. The closure creates the command for each process. Its argument
    /// is the number of the round, starting at 0. Each round needs its own store, which all
    /// processes of the round share. Round 0 is not disturbed.
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

    /// Sets the number of disturbed rounds. Default: 20.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the maximum number of kills in a round. Default: 1.
    pub fn kills(mut self, kills: usize) -> Self {
        self.kills = kills;
        self
    }

    /// Sets the random seed of the kill times. The times are chosen as fractions of the duration of
    /// an undisturbed process, and the same seed chooses the same fractions. Default: a new seed
    /// for each test. The report and every failure contain it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the time limit of one process. Default: one minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets a check of the remains of a round, such as its store. It runs after the last process of
    /// the round has ended, and an `Err` fails the test.
    pub fn check(mut self, check: impl FnMut(usize) -> Result<(), String> + 'a) -> Self {
        self.check = Box::new(check);
        self
    }

    /// Executes all rounds on the current thread.
    ///
    /// # Panics
    /// If a process cannot be started, fails, exceeds its time limit or prints different output, or
    /// if the check fails. The message contains the seed, the round and the times of the kills.
    pub fn run(mut self) -> KillReport {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (output, mut undisturbed) = match self.process(0, None) {
            Ok(ProcessEnd::ByItself { printed, after }) => (printed, after),
            Ok(ProcessEnd::Killed) => unreachable!("round 0 has no moment to be killed at"),
            Err(problem) => self.fail(0, &[], &problem),
        };
        if let Err(problem) = (self.check)(0) {
            self.fail(0, &[], &problem);
        }
        let (seed, rounds) = (self.seed, self.rounds);
        let mut report =
            KillReport { seed, rounds, processes: 1, kills: Vec::new(), undisturbed, output };
        for round in 1..=self.rounds {
            let mut moments = Vec::new();
            loop {
                // The kill time is uniformly distributed over the duration of an undisturbed
                // process.
                let longest = u64::try_from(undisturbed.as_micros()).unwrap_or(u64::MAX).max(1);
                let moment = Duration::from_micros(random.u64(0..longest));
                let cut = (moments.len() < self.kills).then_some(moment);
                report.processes += 1;
                match self.process(round, cut) {
                    Ok(ProcessEnd::Killed) => moments.push(moment),
                    Ok(ProcessEnd::ByItself { printed, after }) if printed == report.output => {
                        // The first process may be slower because caches are cold. A kill time
                        // after the end would never kill.
                        if moments.is_empty() {
                            undisturbed = undisturbed.min(after);
                        }
                        break;
                    }
                    Ok(ProcessEnd::ByItself { printed, .. }) => {
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

    /// Runs one process from its start to its end.
    fn process(
        &mut self,
        round: usize,
        kill_after: Option<Duration>,
    ) -> Result<ProcessEnd, String> {
        let mut command = (self.command)(round);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| format!("`{command:?}` could not be started: {error}"))?;
        let mut running = ChildGuard(child);
        let began = Instant::now();
        let (stdout, stderr) =
            (read_all(running.0.stdout.take()), read_all(running.0.stderr.take()));
        let (status, after) = loop {
            let ended = running
                .0
                .try_wait()
                .map_err(|error| format!("the process cannot be waited for: {error}"))?;
            let passed = began.elapsed();
            match ended {
                Some(status) => break (status, passed),
                None if kill_after.is_some_and(|moment| passed >= moment) => {
                    running.end();
                    return Ok(ProcessEnd::Killed);
                }
                None if passed >= self.limit => {
                    running.end();
                    let said = String::from_utf8_lossy(
                        &stderr.recv_timeout(self.limit).unwrap_or_default(),
                    )
                    .into_owned();
                    return Err(format!("the process had no end after {:?}\n{said}", self.limit));
                }
                None => thread::sleep(
                    TICK.min(kill_after.map_or(TICK, |moment| moment.saturating_sub(passed))),
                ),
            }
        };
        let text = |bytes: mpsc::Receiver<Vec<u8>>| {
            // A child process of the process may still hold the pipe open.
            String::from_utf8_lossy(&bytes.recv_timeout(self.limit).unwrap_or_default())
                .into_owned()
        };
        let (printed, said) = (text(stdout), text(stderr));
        match status.success() {
            true => Ok(ProcessEnd::ByItself { printed, after }),
            false => Err(format!("the process ended with {status}\n{printed}\n{said}")),
        }
    }
}

/// Reads to the end on a thread, so that the process never blocks on a full pipe.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, bytes) = mpsc::channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut all));
        // The output of a killed process has no receiver.
        let _ = read.and_then(|_| sender.send(all).map_err(io::Error::other));
    });
    bytes
}

/// A process that is killed when the value is dropped, so that it does not outlive the test.
struct ChildGuard(Child);

impl ChildGuard {
    fn end(&mut self) {
        // Killing a process that has just ended fails, which is harmless.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.end();
    }
}

impl KillReport {
    /// Returns the seed, which reproduces the kill times.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of killed processes. A process that ended before its kill time is not
    /// counted.
    pub fn kills(&self) -> usize {
        self.kills.len()
    }

    /// Returns the number of started processes.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// Returns the final output, which is the same in every round.
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
        f.debug_struct("KillTest")
            .field("rounds", &self.rounds)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
