//! Modes and owners.

use axum::http::StatusCode;
use holm_sandbox_linux::files::FilesError;

use super::failure::failure;
use super::manage::octal_mode;
use super::path::Place;
use crate::api::query::Pairs;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;

/// The box's own lists of users and groups.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const LIST_BYTES_MAX: u64 = 1024 * 1024;

pub(super) async fn set_permissions(inside: Inside, pairs: Pairs) -> Result<StatusCode> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let mode = pairs.get("mode").map(octal_mode).transpose()?;
    let owner = pairs.get("owner").map(str::to_owned);
    let group = pairs.get("group").map(str::to_owned);
    if mode.is_none() && owner.is_none() && group.is_none() {
        return Err(ApiError::bad_request(
            "nothing to change: give `mode`, `owner` or `group`",
        ));
    }
    let set = inside.machine.blocking(move |machine| {
        let files = machine.files().map_err(|error| failure(&place, error))?;
        if owner.is_some() || group.is_some() {
            let found = files
                .symlink_metadata(&place.path)
                .map_err(|error| failure(&place, error))?;
            let ids = machine.ids;
            let unknown = |what: &str, name: &str| {
                ApiError::bad_request(format!("there is no {what} `{name}` in the sandbox"))
            };
            let uid = match &owner {
                None => found.uid,
                Some(name) => number(machine, USERS, name)
                    .and_then(|inside| ids.user_on_host(inside))
                    .ok_or_else(|| unknown("user", name))?,
            };
            let gid = match &group {
                None => found.gid,
                Some(name) => number(machine, GROUPS, name)
                    .and_then(|inside| ids.group_on_host(inside))
                    .ok_or_else(|| unknown("group", name))?,
            };
            if (uid, gid) != (found.uid, found.gid) {
                files
                    .set_owner(&place.path, uid, gid)
                    .map_err(|error| denied(&place, error))?;
            }
        }
        if let Some(mode) = mode {
            files
                .set_mode(&place.path, mode)
                .map_err(|error| failure(&place, error))?;
        }
        Ok::<_, ApiError>(())
    });
    set.await?;
    Ok(StatusCode::OK)
}

/// Only root may give files away, and the toolbox is not root.
fn denied(place: &Place, error: FilesError) -> ApiError {
    let mut error = failure(place, error);
    error
        .message
        .push_str(": the sandbox's user cannot give files to others");
    error
}

/// The id of a user or group, by its name or number.
fn number(machine: &Machine, list: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let files = machine.files().ok()?;
    let list = files.read(list.as_ref(), LIST_BYTES_MAX).ok()?;
    find_number(&String::from_utf8_lossy(&list), name)
}

/// Both lists have lines of `name:password:id:…`.
fn find_number(list: &str, name: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        found.then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_boxs_lists() {
        let list =
            "root:x:0:0:root:/root:/bin/sh\nbroken\ndaytona:x:1000:1000::/home/daytona:/bin/bash\n";
        assert_eq!(find_number(list, "daytona"), Some(1_000));
        assert_eq!(find_number(list, "root"), Some(0));
        assert_eq!(find_number(list, "broken"), None);
        assert_eq!(find_number(list, "x"), None);
    }
}
