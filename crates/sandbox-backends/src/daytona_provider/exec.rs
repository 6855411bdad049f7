//! Commands in the sandbox, by the direct API.
//!
//! `process/execute` gives both outputs merged, as text, and none at all after a timeout. So a small script keeps them in files of the
//! sandbox and tells them apart in its answer, byte for byte; after a timeout they are still there and are asked for. All processes
//! of a command carry a variable by which they are found and ended, with what they have started, wherever that went.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_daytona_client::ClientError;
use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::error::ErrorCode;
use holm_daytona_client::wire::process::ExecuteRequest;
use holm_sandbox::{
    Capture, Exec, ExecOutcome, Interrupt, Redactor, SandboxError, Stdin, exit_code_for_signal,
};
use uuid::Uuid;

use super::error::{ProviderError, Result};
use super::live::Live;
use super::preview::{PortWatch, Preview};
use super::provider::Provider;
use super::remote::{self, Kind};

const RUN: &str = include_str!("run.sh");
const END: &str = include_str!("ended.sh");
/// By which the processes of a command are found.
const MARK: &str = "HOLM_COMMAND";
/// Without a folder for its outputs a command is run plainly.
const NO_FOLDER: i32 = 125;
/// What shells give to a command that took too long.
const TIMED_OUT: i32 = 124;
const SIGKILL: i32 = 9;
/// Between two looks whether somebody wants the command to end.
const INTERRUPTS_EVERY: Duration = Duration::from_millis(50);
/// More than this is not asked of a sandbox in one answer.
const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Provider {
    /// Runs a command to its end. A command that fails is an outcome, not an error. At its timeout, and when the future is dropped,
    /// it is ended with all its processes.
    pub async fn exec(&self, mut exec: Exec) -> Result<ExecOutcome> {
        exec.validate()?;
        let live = self.live().await?;
        let interrupts = exec.interrupts.take();
        let command = Command::new(&live, exec).await?;
        Box::pin(command.complete(&live, interrupts)).await
    }

    /// The same, and tells of every port that begins to be served meanwhile.
    pub async fn exec_watched(
        &self,
        exec: Exec,
        served: &mut (dyn FnMut(Preview) + Send),
    ) -> Result<ExecOutcome> {
        let live = self.live().await?;
        let ports = PortWatch::shared(live.toolbox());
        Box::pin(ports.during(self.exec(exec), served)).await
    }
}

/// A command on its way.
struct Command {
    id: String,
    folder: String,
    argv: Vec<String>,
    cwd: String,
    envs: StringMap,
    /// A file in the sandbox.
    input: Option<String>,
    timeout: Option<Duration>,
    output_bytes_max: usize,
    redactor: Redactor,
}

/// Whether it was us who ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Yes,
    No,
}

/// How it ended, and what it wrote.
struct Ended {
    /// `None` after a timeout.
    exit_code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Command {
    async fn new(live: &Live, exec: Exec) -> Result<Self> {
        let cwd = folder_for(live, exec.cwd.as_deref()).await?;
        let id = Uuid::new_v4().simple().to_string();
        let mut envs = StringMap::new();
        let mut redactor = Redactor::default();
        for (key, value) in exec.env {
            envs.insert(
                key.to_string(),
                text(value, "the value of an environment variable")?,
            );
        }
        for (key, secret) in exec.secret_env {
            envs.insert(key.to_string(), secret.expose().to_owned());
            redactor = redactor.with_secret(key.as_str(), &secret);
        }
        envs.insert(MARK.to_owned(), id.clone());
        let argv = exec.argv.into_iter();
        let argv = argv
            .map(|argument| text(argument, "an argument"))
            .collect::<Result<_>>()?;
        let folder = format!("{}/.holm-command-{id}", live.home());
        let input = match exec.stdin {
            Stdin::Closed => None,
            Stdin::Bytes(bytes) => {
                let path = format!("{folder}/in");
                let sent = live.call(|toolbox| {
                    let (path, bytes) = (path.clone(), bytes.clone());
                    async move { toolbox.files().write(&path, bytes).await }
                });
                sent.await?;
                Some(path)
            }
            // It may never end, and the API has no way to pass it on meanwhile.
            Stdin::Reader(_) => {
                return Err(SandboxError::Unsupported {
                    operation: "exec with an input that is read while the command runs",
                }
                .into());
            }
        };
        Ok(Self {
            id,
            folder,
            argv,
            cwd,
            envs,
            input,
            timeout: exec.timeout,
            output_bytes_max: exec.output_bytes_max.min(OUTPUT_BYTES_MAX),
            redactor,
        })
    }

    /// Runs it, and listens meanwhile to whoever wants it to end.
    async fn complete(
        self,
        live: &Arc<Live>,
        interrupts: Option<Receiver<Interrupt>>,
    ) -> Result<ExecOutcome> {
        let mut ending = EndOnDrop(Some((live, self.id.clone(), self.folder.clone())));
        let began = Instant::now();
        let mut killed = Killed::No;
        let ended = {
            let mut running = Box::pin(self.run(live));
            loop {
                tokio::select! {
                    ended = &mut running => break ended?,
                    () = tokio::time::sleep(INTERRUPTS_EVERY), if interrupts.is_some() => {}
                }
                let asked = interrupts
                    .as_ref()
                    .and_then(|requests| requests.try_recv().ok());
                match asked {
                    None => {}
                    Some(Interrupt::Drain) => self.signal(live, "INT").await?,
                    Some(Interrupt::Kill) => {
                        killed = Killed::Yes;
                        self.signal(live, "KILL").await?;
                    }
                }
            }
        };
        ending.0 = None;
        Ok(self.outcome(ended, killed, began.elapsed()))
    }

    /// One byte more than is kept, and room for a secret that the cut would split.
    fn bytes_to_ask_for(&self) -> String {
        (self.output_bytes_max + self.redactor.secret_bytes_max() + 1).to_string()
    }

    async fn run(&self, live: &Live) -> Result<Ended> {
        let bytes = self.bytes_to_ask_for();
        let input = self.input.as_deref().unwrap_or_default();
        let mut arguments = vec![self.folder.as_str(), bytes.as_str(), input];
        arguments.extend(self.argv.iter().map(String::as_str));
        let request = ExecuteRequest {
            command: remote::command_line(RUN, &arguments, None)?,
            ..self.request()
        };
        let answer = live
            .call(|toolbox| {
                let request = request.clone();
                async move { toolbox.process().execute(&request).await }
            })
            .await;
        match answer {
            Ok(answer) if answer.exit_code == NO_FOLDER => {
                tracing::warn!(problem = answer.result.trim(), "running a command plainly");
                self.run_plainly(live).await
            }
            Ok(answer) => match (parse(&answer.result), code_in(&answer.result)) {
                (Some(ended), Some(code)) if code <= 128 => Ok(ended),
                // A signal ended the command, and perhaps the script in the middle of its answer. Then the files are still there.
                (_, code) if code.is_some() || answer.exit_code != 0 => {
                    let mut left = self.what_is_left(live).await?;
                    left.exit_code = Some(code.unwrap_or(answer.exit_code));
                    Ok(left)
                }
                (_, _) => Err(ProviderError::Script {
                    doing: "run a command".to_owned(),
                    problem: format!("the answer is `{}`", answer.result.trim()),
                }),
            },
            Err(ProviderError::Client(error)) if is_command_timeout(&error) => {
                self.what_is_left(live).await
            }
            Err(error) => Err(error),
        }
    }

    fn request(&self) -> ExecuteRequest {
        ExecuteRequest {
            command: String::new(),
            cwd: Some(self.cwd.clone()),
            envs: self.envs.clone(),
            timeout: self.timeout.map(|timeout| {
                // The API knows whole seconds.
                let more = u64::from(timeout.subsec_nanos() > 0);
                (timeout.as_secs() + more).max(1)
            }),
        }
    }

    /// Where nothing can be written: both outputs are one then.
    async fn run_plainly(&self, live: &Live) -> Result<Ended> {
        let argv: Vec<&str> = self.argv.iter().map(String::as_str).collect();
        let request = ExecuteRequest {
            command: format!("{} </dev/null", holm_sandbox::shell_quote(&argv)?),
            ..self.request()
        };
        match live.toolbox().process().execute(&request).await {
            Ok(answer) => Ok(Ended {
                exit_code: Some(answer.exit_code),
                stdout: answer.result.into_bytes(),
                stderr: Vec::new(),
            }),
            Err(error) if is_command_timeout(&error) => self.what_is_left(live).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Ends all that is left of the command, and asks what it had written.
    async fn what_is_left(&self, live: &Live) -> Result<Ended> {
        let bytes = self.bytes_to_ask_for();
        let arguments = [self.id.as_str(), "KILL", &self.folder, &bytes];
        let answer = remote::run(&live.toolbox(), END, &arguments).await?;
        Ok(parse(&answer.result).unwrap_or(Ended {
            exit_code: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }))
    }

    async fn signal(&self, live: &Live, signal: &str) -> Result<()> {
        remote::run(&live.toolbox(), END, &[&self.id, signal, "", ""]).await?;
        Ok(())
    }

    fn outcome(self, ended: Ended, killed: Killed, duration: Duration) -> ExecOutcome {
        let keep = |bytes: &[u8]| {
            let mut capture = Capture::new(self.output_bytes_max, self.redactor.clone());
            capture.push(bytes);
            capture.finish()
        };
        let (stdout, stderr) = (keep(&ended.stdout), keep(&ended.stderr));
        let (exit_code, signal) = match ended.exit_code {
            _ if killed == Killed::Yes => (exit_code_for_signal(SIGKILL), Some(SIGKILL)),
            None => (TIMED_OUT, None),
            // What a shell makes of a signal.
            Some(code @ 129..=192) => (code, Some(code - 128)),
            Some(code) => (code, None),
        };
        ExecOutcome {
            exit_code,
            signal,
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
            duration,
            timed_out: killed == Killed::No && ended.exit_code.is_none(),
        }
    }
}

fn is_command_timeout(error: &ClientError) -> bool {
    error.has_code(&ErrorCode::ProcessExecutionTimeout) || error.status() == Some(408)
}

/// `ended CODE`, then each output in a line of base64. A code of `-` is none.
fn parse(answer: &str) -> Option<Ended> {
    let mut lines = answer.lines();
    lines.next()?.strip_prefix("ended ")?;
    let mut bytes = || STANDARD.decode(lines.next()?).ok();
    Some(Ended {
        exit_code: code_in(answer),
        stdout: bytes()?,
        stderr: bytes()?,
    })
}

fn code_in(answer: &str) -> Option<i32> {
    let first = answer.lines().next()?;
    first.strip_prefix("ended ")?.parse().ok()
}

/// Where a command starts. A folder that leads out of the workspace is refused, one that is missing too.
async fn folder_for(live: &Live, cwd: Option<&Path>) -> Result<String> {
    live.workspace_is_set_up().await?;
    let Some(cwd) = cwd else {
        return live.workspace();
    };
    let cwd = live.mapper().map(cwd)?;
    let found = remote::inspect(live, &[&cwd]).await?;
    match found.first().map(|found| found.kind) {
        Some(Kind::Folder | Kind::Link) => Ok(cwd),
        Some(Kind::Missing) | None => Err(SandboxError::NotFound { path: cwd.into() }.into()),
        Some(Kind::File | Kind::Other) => {
            Err(SandboxError::NotADirectory { path: cwd.into() }.into())
        }
    }
}

fn text(value: OsString, what: &str) -> Result<String> {
    value.into_string().map_err(|value| {
        SandboxError::Invalid {
            what: format!("{what} is not UTF-8: `{}`", value.display()),
            hint: "Daytona takes text only".to_owned(),
        }
        .into()
    })
}

/// Ends a command whose caller went away.
struct EndOnDrop<'live>(Option<(&'live Arc<Live>, String, String)>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let Some((live, id, folder)) = self.0.take() else {
            return;
        };
        let toolbox = live.toolbox();
        // Outside of a runtime nobody is left to do it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let ended = remote::run(&toolbox, END, &[&id, "KILL", &folder, "0"]).await;
                if let Err(error) = ended {
                    tracing::warn!(%error, "a command may go on in the sandbox");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_not_taken_for_a_whole_one() {
        let whole = parse("ended 3\nb3V0\n\n").unwrap();
        assert_eq!((whole.exit_code, whole.stdout), (Some(3), b"out".to_vec()));
        assert!(parse("ended 3\nb3V0").is_none());
        assert!(parse("ended 3\nb3\n\n").is_none());
        assert!(parse("Killed\nended 137\n\n\n").is_none());
        assert_eq!(parse("ended -\n\n\n").unwrap().exit_code, None);
    }
}
