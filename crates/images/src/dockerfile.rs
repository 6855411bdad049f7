//! Reads as much of a Dockerfile as we act on: where it starts from, and whether it only describes.
//!
//! Most Dockerfiles that SDKs send are one `FROM`. Those, and those that only set what is stored in the
//! image's configuration, need no builder. Anything else, and anything that is not clear, is left to one.

use crate::config::{ImageConfig, this_architecture};
use crate::error::{ImagesError, Result};

const DOCKERFILE_BYTES_MAX: usize = 1 << 20;
const STAGES_MAX: usize = 32;

/// One instruction, its continued lines joined.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Instruction {
    /// Numbers of its first and last line, from zero.
    first_line: usize,
    last_line: usize,
    /// In capitals.
    keyword: String,
    rest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    instruction: Instruction,
    image: String,
    name: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Dockerfile<'a> {
    text: &'a str,
    instructions: Vec<Instruction>,
    stages: Vec<Stage>,
}

impl<'a> Dockerfile<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self> {
        if text.len() > DOCKERFILE_BYTES_MAX {
            return Err(ImagesError::TooLarge {
                unit: "bytes of Dockerfile",
                max: DOCKERFILE_BYTES_MAX as u64,
            });
        }
        let instructions = instructions(text);
        let mut arguments: Vec<(String, String)> = Vec::new();
        let mut stages = Vec::new();
        for instruction in &instructions {
            match instruction.keyword.as_str() {
                "ARG" if stages.is_empty() => {
                    if let Some((name, value)) = instruction.rest.split_once('=') {
                        let value = value.trim_matches(['"', '\'']);
                        arguments.push((name.trim().to_owned(), value.to_owned()));
                    }
                }
                "FROM" => stages.push(stage(instruction, &arguments)?),
                keyword if stages.is_empty() && keyword != "ARG" => {
                    return Err(fault(instruction, "the first instruction has to be FROM"));
                }
                _ => {}
            }
        }
        if stages.is_empty() {
            return Err(ImagesError::Dockerfile {
                line: 1,
                reason: "there is no FROM".into(),
            });
        }
        if stages.len() > STAGES_MAX {
            return Err(ImagesError::TooLarge {
                unit: "stages",
                max: STAGES_MAX as u64,
            });
        }
        Ok(Self {
            text,
            instructions,
            stages,
        })
    }

    /// The image to start from and the changes to its configuration, if that is all.
    pub(crate) fn description(&self) -> Option<(&str, Vec<Change>)> {
        let [stage] = self.stages.as_slice() else {
            return None;
        };
        if stage.image == "scratch" {
            return None;
        }
        let mut changes = Vec::new();
        for instruction in &self.instructions {
            if !matches!(instruction.keyword.as_str(), "FROM" | "ARG") {
                changes.extend(change(instruction)?);
            }
        }
        Some((&stage.image, changes))
    }

    /// Images that stages start from and that are not stages themselves, each once.
    pub(crate) fn bases(&self) -> Vec<&str> {
        let mut bases: Vec<&str> = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            let image = stage.image.as_str();
            let is_stage = self
                .stages
                .iter()
                .take(index)
                .any(|earlier| earlier.name.as_deref() == Some(image.to_lowercase().as_str()));
            if !is_stage && image != "scratch" && !bases.contains(&image) {
                bases.push(image);
            }
        }
        bases
    }

    /// The text with other images to start from: `place_of` says where the builder finds a base.
    pub(crate) fn rebased(&self, place_of: impl Fn(usize) -> String) -> String {
        let bases = self.bases();
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        for stage in &self.stages {
            let Some(base) = bases.iter().position(|base| *base == stage.image) else {
                continue;
            };
            let name = stage.name.as_ref();
            let name = name.map(|name| format!(" AS {name}")).unwrap_or_default();
            let place = place_of(base);
            for line in stage.instruction.first_line..=stage.instruction.last_line {
                if let Some(line) = lines.get_mut(line) {
                    line.clear();
                }
            }
            if let Some(line) = lines.get_mut(stage.instruction.first_line) {
                *line = format!("FROM {place}{name}");
            }
        }
        lines.join("\n") + "\n"
    }
}

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Env(String, String),
    /// May be relative to the one before.
    WorkingDir(String),
    User(String),
    Cmd(Vec<String>),
    Entrypoint(Vec<String>),
    Expose(Vec<String>),
}

impl Change {
    pub(crate) fn apply(self, config: &mut ImageConfig) {
        match self {
            Self::Env(name, value) => {
                let prefix = format!("{name}=");
                let entry = format!("{prefix}{value}");
                match config.env.iter_mut().find(|old| old.starts_with(&prefix)) {
                    Some(old) => *old = entry,
                    None => config.env.push(entry),
                }
            }
            Self::WorkingDir(path) => {
                let before = config.working_dir.as_deref().unwrap_or("/");
                // An absolute path replaces all of what it is joined to.
                let joined = std::path::Path::new(before).join(path);
                config.working_dir = Some(joined.to_string_lossy().into_owned());
            }
            Self::User(user) => config.user = Some(user),
            Self::Cmd(cmd) => config.cmd = cmd,
            Self::Entrypoint(entrypoint) => {
                config.entrypoint = entrypoint;
                // As docker does: the old arguments were meant for the old program.
                config.cmd.clear();
            }
            Self::Expose(ports) => config.exposed_ports.extend(ports),
        }
    }
}

/// What an instruction changes, if it is one that only describes and needs no interpretation.
fn change(instruction: &Instruction) -> Option<Vec<Change>> {
    let rest = instruction.rest.as_str();
    // Variables, quotes and escapes have rules of their own.
    if rest.contains(['$', '\\', '`']) || rest.is_empty() {
        return None;
    }
    let plain = |text: &str| (!text.contains(['"', '\''])).then(|| text.to_owned());
    Some(match instruction.keyword.as_str() {
        "ENV" => {
            let text = plain(rest)?;
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.first()?.contains('=') {
                let pair = |word: &&str| {
                    let (name, value) = word.split_once('=')?;
                    (!name.is_empty()).then(|| Change::Env(name.to_owned(), value.to_owned()))
                };
                words.iter().map(pair).collect::<Option<_>>()?
            } else {
                let (name, value) = text.split_once(char::is_whitespace)?;
                vec![Change::Env(name.to_owned(), value.trim().to_owned())]
            }
        }
        "WORKDIR" => vec![Change::WorkingDir(plain(rest)?)],
        "USER" => vec![Change::User(plain(rest)?)],
        "CMD" => vec![Change::Cmd(command(rest))],
        "ENTRYPOINT" => vec![Change::Entrypoint(command(rest))],
        "EXPOSE" => {
            let text = plain(rest)?;
            let port = |word: &str| {
                if word.contains('/') {
                    word.to_owned()
                } else {
                    format!("{word}/tcp")
                }
            };
            vec![Change::Expose(text.split_whitespace().map(port).collect())]
        }
        // Kept nowhere, so any text will do.
        "LABEL" | "MAINTAINER" => Vec::new(),
        _ => return None,
    })
}

/// The list form, or else a line for the shell.
fn command(rest: &str) -> Vec<String> {
    serde_json::from_str(rest)
        .unwrap_or_else(|_| vec!["/bin/sh".into(), "-c".into(), rest.to_owned()])
}

fn stage(instruction: &Instruction, arguments: &[(String, String)]) -> Result<Stage> {
    let mut words = instruction.rest.split_whitespace().peekable();
    while let Some(flag) = words.next_if(|word| word.starts_with("--")) {
        let Some(platform) = flag.strip_prefix("--platform=") else {
            return Err(fault(instruction, format!("unknown flag `{flag}`")));
        };
        let wanted = format!("linux/{}", this_architecture());
        let is_ours =
            platform == wanted || matches!(platform, "$BUILDPLATFORM" | "$TARGETPLATFORM");
        if !is_ours {
            return Err(ImagesError::WrongPlatform {
                wanted,
                found: platform.to_owned(),
            });
        }
    }
    let image = words
        .next()
        .ok_or_else(|| fault(instruction, "FROM names no image"))?;
    let name = match (words.next(), words.next(), words.next()) {
        (None, None, None) => None,
        (Some(word), Some(name), None) if word.eq_ignore_ascii_case("as") => {
            Some(name.to_lowercase())
        }
        _ => {
            return Err(fault(
                instruction,
                "FROM is followed by more than `AS name`",
            ));
        }
    };
    Ok(Stage {
        instruction: instruction.clone(),
        image: substitute(image, arguments).ok_or_else(|| {
            fault(
                instruction,
                format!("`{image}` uses a variable that no ARG before it gives a value"),
            )
        })?,
        name,
    })
}

/// Replaces `$NAME` and `${NAME}`.
fn substitute(text: &str, arguments: &[(String, String)]) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => after.split_at(after.find(|char| !is_part(char)).unwrap_or(after.len())),
        };
        // The last of several counts.
        let (_, value) = arguments.iter().rev().find(|(known, _)| known == name)?;
        result.push_str(value);
        rest = after;
    }
    result.push_str(rest);
    (!result.is_empty()).then_some(result)
}

/// Joins continued lines, and leaves out comments, empty lines and the texts of here-documents.
fn instructions(text: &str) -> Vec<Instruction> {
    let escape = escape_of(text);
    let mut found: Vec<Instruction> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((first_line, line)) = lines.next() {
        let is_comment = |line: &str| line.trim_start().starts_with('#');
        if line.trim().is_empty() || is_comment(line) {
            continue;
        }
        let mut joined = line.trim().to_owned();
        let mut last_line = first_line;
        while let Some(kept) = joined.strip_suffix(escape) {
            joined = kept.to_owned();
            // Comments and empty lines between continued ones do not end them.
            let next = lines.find(|(_, line)| !is_comment(line) && !line.trim().is_empty());
            let Some((number, line)) = next else { break };
            last_line = number;
            joined.push_str(line.trim_end());
        }
        let (keyword, rest) = joined
            .split_once(char::is_whitespace)
            .unwrap_or((joined.as_str(), ""));
        let instruction = Instruction {
            first_line,
            last_line,
            keyword: keyword.to_uppercase(),
            rest: rest.trim().to_owned(),
        };
        for end in here_documents(&instruction) {
            let is_end = |line: &str| line.trim_start_matches('\t') == end;
            let _skipped = lines.find(|(_, line)| is_end(line));
        }
        found.push(instruction);
    }
    found
}

/// A comment in the first lines may choose another escape character.
fn escape_of(text: &str) -> char {
    text.lines()
        .map_while(|line| line.trim().strip_prefix('#'))
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("escape"))
        .and_then(|(_, value)| value.trim().chars().next())
        .unwrap_or('\\')
}

/// The words that end the here-documents of an instruction, in order.
fn here_documents(instruction: &Instruction) -> Vec<String> {
    if !matches!(instruction.keyword.as_str(), "RUN" | "COPY" | "ADD") {
        return Vec::new();
    }
    instruction
        .rest
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("<<"))
        .map(|word| word.trim_start_matches('-').trim_matches(['"', '\'']))
        .filter(|word| {
            let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
            !word.is_empty() && word.chars().all(is_part)
        })
        .map(str::to_owned)
        .collect()
}

fn fault(instruction: &Instruction, reason: impl Into<String>) -> ImagesError {
    ImagesError::Dockerfile {
        line: instruction.first_line + 1,
        reason: reason.into(),
    }
}

#[cfg(test)]
#[path = "dockerfile_tests.rs"]
mod tests;
