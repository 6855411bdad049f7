//! Looking for files by their content and by their names.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::Json;
use globset::GlobBuilder;
use holm_daytona_wire::files::{Match, SearchFilesResponse};
use holm_sandbox_linux::files::{EntryKind, FilesError, WalkLimits};
use memchr::memmem::Finder;

use super::failure::failure;
use super::path::Place;
use crate::api::query::Pairs;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;

/// Longer files are not searched for content.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Who wants more searches more precisely.
const MATCHES_MAX: usize = 10_000;
/// Longer lines are cut.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// A NUL this early makes a file binary.
const BINARY_PROBE_BYTES: usize = 8 * 1024;
/// How long one search may take; what was found until then is the answer.
const TIME_MAX: Duration = Duration::from_secs(60);
const LIMITS: WalkLimits = WalkLimits {
    entries_max: 2_000_000,
    depth_max: 1_000,
};

pub(super) async fn find(inside: Inside, pairs: Pairs) -> Result<Json<Vec<Match>>> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let pattern = pairs.required("pattern")?.to_owned();
    let found = inside.machine.blocking(move |machine| {
        let mut finding = Finding::new(machine, &pattern);
        finding
            .run(&place)
            .map_err(|error| failure(&place, error))?;
        Ok::<_, ApiError>(finding.matches)
    });
    Ok(Json(found.await?))
}

struct Finding<'a> {
    machine: &'a Machine,
    pattern: Finder<'a>,
    until: Instant,
    matches: Vec<Match>,
}

impl<'a> Finding<'a> {
    fn new(machine: &'a Machine, pattern: &'a str) -> Self {
        Self {
            machine,
            pattern: Finder::new(pattern),
            until: Instant::now() + TIME_MAX,
            matches: Vec::new(),
        }
    }

    fn run(&mut self, place: &Place) -> Result<(), FilesError> {
        let files = self.machine.files()?;
        if files.metadata(&place.path)?.kind == EntryKind::File {
            let content = files.read(&place.path, FILE_BYTES_MAX)?;
            self.look(&content, &place.given);
            return Ok(());
        }
        for entry in files.walk(&place.path, LIMITS)? {
            let entry = entry?;
            if self.matches.len() >= MATCHES_MAX || Instant::now() > self.until {
                break;
            }
            let is_searched = entry.metadata.kind == EntryKind::File
                && (1..=FILE_BYTES_MAX).contains(&entry.metadata.size_bytes);
            if is_searched
                // One file that cannot be read does not keep the others from being searched.
                && let Ok(content) = files.read(&place.path.join(&entry.path), FILE_BYTES_MAX)
            {
                self.look(&content, &place.below(&entry.path));
            }
        }
        Ok(())
    }

    fn look(&mut self, content: &[u8], file: &str) {
        let matches = lines_with(content, &self.pattern, MATCHES_MAX - self.matches.len());
        self.matches
            .extend(matches.into_iter().map(|(line, content)| Match {
                file: file.to_owned(),
                line,
                content,
            }));
    }
}

/// The lines that hold a text, with their numbers.
fn lines_with(content: &[u8], pattern: &Finder<'_>, lines_max: usize) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let probe = content.get(..BINARY_PROBE_BYTES).unwrap_or(content);
    if memchr::memchr(0, probe).is_some() {
        return found;
    }
    let (mut number, mut counted) = (1_u64, 0);
    let mut from = 0;
    while found.len() < lines_max
        && let Some(rest) = content.get(from..)
        && let Some(at) = pattern.find(rest)
    {
        let at = from + at;
        let before = content.get(..at).unwrap_or_default();
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let end = memchr::memchr(b'\n', content.get(at..).unwrap_or_default())
            .map_or(content.len(), |length| at + length);
        let passed = content.get(counted..start).unwrap_or_default();
        number += memchr::memchr_iter(b'\n', passed).fold(0, |count, _| count + 1);
        counted = start;
        let line = content.get(start..end.min(start + LINE_BYTES_MAX));
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        found.push((number, line.trim_end_matches('\r').to_owned()));
        from = end + 1;
    }
    found
}

pub(super) async fn search(inside: Inside, pairs: Pairs) -> Result<Json<SearchFilesResponse>> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let pattern = pairs.required("pattern")?;
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| {
            ApiError::bad_request(format!("`{pattern}` is no pattern: {}", error.kind()))
        })?
        .compile_matcher();
    let until = Instant::now() + TIME_MAX;
    let found = inside.machine.blocking(move |machine| {
        let walk = || {
            let mut found = Vec::new();
            for entry in machine.files()?.walk(&place.path, LIMITS)? {
                let entry = entry?;
                if found.len() >= MATCHES_MAX || Instant::now() > until {
                    break;
                }
                let name = entry.path.file_name().unwrap_or_default();
                if glob.is_match(Path::new(name)) {
                    found.push(place.below(&entry.path));
                }
            }
            Ok(found)
        };
        walk().map_err(|error| failure(&place, error))
    });
    let files = found.await?;
    Ok(Json(SearchFilesResponse { files }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &[u8], pattern: &str) -> Vec<(u64, String)> {
        lines_with(content, &Finder::new(pattern), 3)
    }

    #[test]
    fn each_line_is_told_once_with_its_number() {
        let content = b"one two two\r\n\nthree\ntwo";
        assert_eq!(
            lines(content, "two"),
            [(1, "one two two".to_owned()), (4, "two".to_owned())]
        );
        assert_eq!(lines(content, "three"), [(3, "three".to_owned())]);
        assert_eq!(lines(content, "four"), []);
        assert_eq!(lines(b"", "x"), []);
        assert_eq!(lines(b"x\0x", "x"), [], "binary");
        assert_eq!(lines(b"x\nx\nx\nx\n", "x").len(), 3, "bounded");
        let long = "x".repeat(10_000);
        assert_eq!(lines(long.as_bytes(), "x")[0].1.len(), LINE_BYTES_MAX);
    }
}
