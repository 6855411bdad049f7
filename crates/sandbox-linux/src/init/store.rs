//! Descriptors that the host leaves with init, by name, to find them again after a restart of its own.
//!
//! **Invariant:** bounded in names, bytes and descriptors, whatever is asked. Nothing here is ever given to a command:
//! all descriptors are closed on exec.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::OwnedFd;

use crate::protocol::{
    PARKED_DESCRIPTORS_MAX, PARKED_NAME_BYTES_MAX, PARKED_NAMES_MAX, PARKED_NOTE_BYTES_MAX,
};

/// Names in one answer: 64 of the longest are far from filling a packet.
const PAGE_NAMES: usize = 64;

#[derive(Debug)]
pub(super) struct Parked {
    pub(super) note: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Store {
    entries: BTreeMap<String, Parked>,
    descriptors_max: usize,
}

impl Store {
    pub(super) fn new(descriptors_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            descriptors_max,
        }
    }

    /// Keeps `parked` in place of what has the name, or says as an error number which bound is in the way.
    pub(super) fn park(&mut self, name: String, parked: Parked) -> Result<(), i32> {
        if name.is_empty()
            || name.len() > PARKED_NAME_BYTES_MAX
            || parked.note.len() > PARKED_NOTE_BYTES_MAX
            || parked.descriptors.len() > PARKED_DESCRIPTORS_MAX
        {
            return Err(libc::EINVAL);
        }
        if !self.entries.contains_key(&name) && self.entries.len() >= PARKED_NAMES_MAX {
            return Err(libc::ENOSPC);
        }
        let others = self.entries.iter().filter(|(other, _)| **other != name);
        let held: usize = others.map(|(_, parked)| parked.descriptors.len()).sum();
        if held + parked.descriptors.len() > self.descriptors_max {
            return Err(libc::EMFILE);
        }
        self.entries.insert(name, parked);
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Parked> {
        self.entries.get(name)
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// The next names in their order.
    pub(super) fn names_after(&self, after: Option<&str>) -> Vec<String> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(name, _)| name.clone())
            .take(PAGE_NAMES)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(descriptors: usize) -> Parked {
        let open = || std::fs::File::open("/dev/null").unwrap().into();
        Parked {
            note: vec![1; 3],
            descriptors: (0..descriptors).map(|_| open()).collect(),
        }
    }

    #[test]
    fn every_bound_is_kept() {
        let mut store = Store::new(12);
        let long = "n".repeat(PARKED_NAME_BYTES_MAX + 1);
        assert_eq!(store.park(long, parked(0)), Err(libc::EINVAL));
        assert_eq!(store.park(String::new(), parked(0)), Err(libc::EINVAL));
        assert_eq!(store.park("a".into(), parked(9)), Err(libc::EINVAL));
        let mut wordy = parked(0);
        wordy.note = vec![0; PARKED_NOTE_BYTES_MAX + 1];
        assert_eq!(store.park("a".into(), wordy), Err(libc::EINVAL));
        store.park("a".into(), parked(8)).unwrap();
        assert_eq!(store.park("b".into(), parked(5)), Err(libc::EMFILE));
        // What is replaced does not count.
        store.park("a".into(), parked(7)).unwrap();
        store.park("b".into(), parked(5)).unwrap();
        for number in 2..PARKED_NAMES_MAX {
            store.park(format!("name-{number}"), parked(0)).unwrap();
        }
        assert_eq!(store.park("more".into(), parked(0)), Err(libc::ENOSPC));
        store.park("a".into(), parked(0)).unwrap();
        store.remove("b");
        store.park("more".into(), parked(0)).unwrap();
    }

    #[test]
    fn pages_make_the_whole_list() {
        let mut store = Store::new(0);
        let mut wanted: Vec<String> = (0..300).map(|number| format!("{number}")).collect();
        for name in &wanted {
            store.park(name.clone(), parked(0)).unwrap();
        }
        let mut names: Vec<String> = Vec::new();
        loop {
            let page = store.names_after(names.last().map(String::as_str));
            if page.is_empty() {
                break;
            }
            names.extend(page);
        }
        wanted.sort();
        assert_eq!(names, wanted);
    }
}
