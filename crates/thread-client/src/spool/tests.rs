//! A spool that is killed, cut, changed and filled.

use std::collections::VecDeque;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn identity() -> Identity {
    Identity {
        stream: "a/stream".parse().unwrap(),
        producer: None,
        kind: Kind::Json,
    }
}

fn limits() -> SpoolLimits {
    SpoolLimits {
        batch_entries_max: 3,
        ..SpoolLimits::default()
    }
}

fn open(folder: &Path) -> Result<Spool, SpoolError> {
    Spool::open(folder, &identity(), limits(), 7)
}

fn entry(number: u64) -> Bytes {
    Bytes::from(format!("{{\"n\":{number}}}"))
}

fn append(spool: &mut Spool, numbers: std::ops::Range<u64>) {
    let entries: Vec<Bytes> = numbers.map(entry).collect();
    spool.append(&entries).unwrap();
    spool.sync().unwrap();
}

/// Everything that is still to be sent, batch by batch.
fn drain(spool: &mut Spool) -> Vec<(u64, Vec<Bytes>)> {
    let mut batches = Vec::new();
    while let Some(batch) = spool.next_batch().unwrap() {
        batches.push((batch.seq, batch.entries));
        spool.acknowledge().unwrap();
    }
    batches
}

#[test]
fn entries_come_out_in_batches_and_in_order() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    append(&mut spool, 0..4);
    assert_eq!((spool.accepted(), spool.acknowledged()), (4, 0));
    let batches = drain(&mut spool);
    let expected = [
        (0, (0..3).map(entry).collect::<Vec<_>>()),
        (1, vec![entry(3)]),
    ];
    assert_eq!(batches, expected);
    assert_eq!((spool.accepted(), spool.acknowledged()), (4, 4));
    assert_eq!(spool.pending_bytes(), 0);
}

#[test]
fn a_number_means_the_same_entries_in_every_life() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    append(&mut spool, 0..1);
    let before = spool.next_batch().unwrap().unwrap();
    assert_eq!(before.sealed, Sealed::JustNow);
    // More has come since, and must not slip into the batch.
    append(&mut spool, 1..3);
    let producer = spool.producer().to_owned();
    drop(spool);
    let mut spool = open(folder.path()).unwrap();
    assert_eq!(spool.producer(), producer);
    let after = spool.next_batch().unwrap().unwrap();
    assert_eq!(after.sealed, Sealed::Before);
    assert_eq!(
        (after.epoch, after.seq, &after.entries),
        (before.epoch, before.seq, &before.entries)
    );
    spool.acknowledge().unwrap();
    drop(spool);
    let mut spool = open(folder.path()).unwrap();
    assert_eq!(spool.acknowledged(), 1);
    // All is confirmed that the server may have seen: this life has its own epoch.
    let fresh = spool.next_batch().unwrap().unwrap();
    assert!(fresh.epoch > after.epoch);
    assert_eq!((fresh.seq, fresh.entries), (0, vec![entry(1), entry(2)]));
}

#[test]
fn a_batch_in_doubt_keeps_its_epoch_and_the_next_one_has_a_new_one() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    append(&mut spool, 0..5);
    let in_doubt = spool.next_batch().unwrap().unwrap();
    drop(spool);
    // A clock that went back does not take the epoch back.
    let mut spool = Spool::open(folder.path(), &identity(), limits(), 2).unwrap();
    let again = spool.next_batch().unwrap().unwrap();
    assert_eq!((again.epoch, again.seq), (in_doubt.epoch, in_doubt.seq));
    spool.acknowledge().unwrap();
    let next = spool.next_batch().unwrap().unwrap();
    assert_eq!((next.epoch, next.seq), (in_doubt.epoch + 1, 0));
}

/// Larger than any buffer, with confirmations in the middle.
#[test]
fn a_long_file_is_read_to_its_end() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    for round in 0..2_000 {
        append(&mut spool, round * 2..round * 2 + 2);
        if round < 1_000 {
            spool.next_batch().unwrap().unwrap();
            spool.acknowledge().unwrap();
        }
    }
    let (accepted, acknowledged) = (spool.accepted(), spool.acknowledged());
    drop(spool);
    let mut spool = open(folder.path()).unwrap();
    assert_eq!(
        (spool.accepted(), spool.acknowledged()),
        (accepted, acknowledged)
    );
    let left = drain(&mut spool)
        .into_iter()
        .flat_map(|(_, entries)| entries);
    assert!(left.eq((acknowledged..4_000).map(entry)));
}

#[test]
fn one_user_at_a_time() {
    let folder = TempDir::new().unwrap();
    let spool = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(SpoolError::InUse { .. })));
    drop(spool);
    assert!(open(folder.path()).is_ok());
}

#[test]
fn a_spool_of_something_else_is_not_used() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    let others = [
        Identity {
            stream: "another".parse().unwrap(),
            ..identity()
        },
        Identity {
            producer: Some("me".parse().unwrap()),
            ..identity()
        },
        Identity {
            kind: Kind::Bytes,
            ..identity()
        },
    ];
    for other in others {
        let opened = Spool::open(folder.path(), &other, limits(), 7);
        assert!(
            matches!(opened, Err(SpoolError::OfAnother { .. })),
            "{other:?}"
        );
    }
}

#[test]
fn a_full_spool_says_so_and_takes_entries_again_later() {
    let folder = TempDir::new().unwrap();
    let limits = SpoolLimits {
        pending_bytes_max: 99,
        ..limits()
    };
    let mut spool = Spool::open(folder.path(), &identity(), limits, 7).unwrap();
    append(&mut spool, 0..4);
    let refused = spool.append(&[entry(4)]);
    assert!(
        matches!(refused, Err(SpoolError::Full { .. })),
        "{refused:?}"
    );
    assert_eq!(spool.accepted(), 4);
    spool.next_batch().unwrap();
    spool.acknowledge().unwrap();
    append(&mut spool, 4..6);
    let left: Vec<Bytes> = drain(&mut spool)
        .into_iter()
        .flat_map(|(_, entries)| entries)
        .collect();
    assert_eq!(left, (3..6).map(entry).collect::<Vec<_>>());
}

#[test]
fn what_is_no_entry_is_refused_before_it_is_promised() {
    let folder = TempDir::new().unwrap();
    let limits = SpoolLimits {
        entry_bytes_max: 10,
        ..limits()
    };
    let mut spool = Spool::open(folder.path(), &identity(), limits, 7).unwrap();
    for wrong in ["", "{", "1 2", "\"0123456789\""] {
        assert!(
            spool.append(&[entry(0), Bytes::from(wrong)]).is_err(),
            "{wrong}"
        );
    }
    assert_eq!(spool.accepted(), 0);
    assert_eq!(spool.next_batch().unwrap(), None);
}

#[test]
fn what_is_confirmed_leaves_the_disk() {
    let folder = TempDir::new().unwrap();
    let limits = SpoolLimits {
        confirmed_bytes_max: 2_000,
        ..limits()
    };
    let mut spool = Spool::open(folder.path(), &identity(), limits, 7).unwrap();
    let size = || fs::metadata(folder.path().join(LOG_NAME)).unwrap().len();
    let mut largest = 0;
    for round in 0..300 {
        append(&mut spool, round * 2..round * 2 + 2);
        assert_eq!(drain(&mut spool).len(), 1);
        largest = largest.max(size());
    }
    assert!(largest < 2_500, "{largest}");
    assert_eq!((spool.accepted(), spool.acknowledged()), (600, 600));
    drop(spool);
    let mut spool = open(folder.path()).unwrap();
    assert_eq!((spool.accepted(), spool.acknowledged()), (600, 600));
    append(&mut spool, 600..601);
    assert_eq!(drain(&mut spool), [(0, vec![entry(600)])]);
}

/// Such as on a full disk: the file that is there does as well.
#[test]
fn a_file_that_cannot_be_written_anew_is_used_on() {
    let folder = TempDir::new().unwrap();
    let limits = SpoolLimits {
        confirmed_bytes_max: 100,
        ..limits()
    };
    let mut spool = Spool::open(folder.path(), &identity(), limits, 7).unwrap();
    fs::create_dir(folder.path().join(NEW_NAME)).unwrap();
    append(&mut spool, 0..30);
    assert!(spool.compact().is_err());
    assert_eq!(drain(&mut spool).len(), 10);
    append(&mut spool, 30..31);
    fs::remove_dir(folder.path().join(NEW_NAME)).unwrap();
    assert_eq!(drain(&mut spool), [(10, vec![entry(30)])]);
    assert_eq!((spool.accepted(), spool.acknowledged()), (31, 31));
}

#[test]
fn a_sealed_batch_survives_compaction() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    append(&mut spool, 0..5);
    spool.next_batch().unwrap();
    spool.acknowledge().unwrap();
    let sealed = spool.next_batch().unwrap().unwrap();
    append(&mut spool, 5..6);
    spool.compact().unwrap();
    let again = spool.next_batch().unwrap().unwrap();
    assert_eq!((sealed.seq, &sealed.entries), (again.seq, &again.entries));
    drop(spool);
    let mut spool = open(folder.path()).unwrap();
    assert_eq!((spool.accepted(), spool.acknowledged()), (6, 3));
    let expected = [(1, vec![entry(3), entry(4)]), (0, vec![entry(5)])];
    assert_eq!(drain(&mut spool), expected);
}

#[test]
fn beginning_again_counts_from_zero() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path()).unwrap();
    append(&mut spool, 0..4);
    spool.next_batch().unwrap();
    spool.acknowledge().unwrap();
    spool.next_batch().unwrap();
    spool.begin_again(3).unwrap();
    let batch = spool.next_batch().unwrap().unwrap();
    assert_eq!((batch.epoch, batch.seq), (8, 0));
    assert_eq!(batch.entries, [entry(3)]);
}

/// A file with confirmed, sealed and new entries, and how many entries are promised at each length of it.
fn sample(folder: &Path) -> Vec<u8> {
    let mut spool = open(folder).unwrap();
    append(&mut spool, 0..2);
    spool.next_batch().unwrap();
    spool.acknowledge().unwrap();
    append(&mut spool, 2..4);
    spool.next_batch().unwrap();
    append(&mut spool, 4..5);
    drop(spool);
    fs::read(folder.join(LOG_NAME)).unwrap()
}

#[test]
fn a_file_that_is_cut_anywhere_gives_what_was_whole() {
    let folder = TempDir::new().unwrap();
    let whole = sample(folder.path());
    let mut header_only = TempDir::new().unwrap().keep();
    drop(open(&header_only).unwrap());
    header_only.push(LOG_NAME);
    let header_length = fs::metadata(&header_only).unwrap().len();
    fs::remove_dir_all(header_only.parent().unwrap()).unwrap();
    let mut counts = Vec::new();
    for length in 0..whole.len() {
        let cut = TempDir::new().unwrap();
        fs::write(cut.path().join(LOG_NAME), &whole[..length]).unwrap();
        if u64::try_from(length).unwrap() < header_length {
            assert!(matches!(
                open(cut.path()),
                Err(SpoolError::Damaged { at: 0, .. })
            ));
            continue;
        }
        let mut spool = open(cut.path()).unwrap();
        let accepted = spool.accepted();
        counts.push(accepted);
        // It goes on as if the torn record had never been begun.
        append(&mut spool, 100..101);
        drop(spool);
        let mut spool = open(cut.path()).unwrap();
        let acknowledged = spool.acknowledged();
        let left: Vec<Bytes> = drain(&mut spool)
            .into_iter()
            .flat_map(|(_, entries)| entries)
            .collect();
        let expected: Vec<Bytes> = (acknowledged..accepted).chain([100]).map(entry).collect();
        assert_eq!(left, expected, "cut at {length}");
    }
    assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&4));
}

#[test]
fn a_byte_that_was_changed_anywhere_is_found() {
    let folder = TempDir::new().unwrap();
    let whole = sample(folder.path());
    for at in 0..whole.len() {
        for bits in [0x01, 0x80, 0xff] {
            let changed = TempDir::new().unwrap();
            let mut bytes = whole.clone();
            bytes[at] ^= bits;
            fs::write(changed.path().join(LOG_NAME), &bytes).unwrap();
            let opened = open(changed.path());
            assert!(
                matches!(opened, Err(SpoolError::Damaged { .. })),
                "byte {at} changed by {bits:#x}: {opened:?}"
            );
            // And nothing was taken away.
            assert_eq!(fs::read(changed.path().join(LOG_NAME)).unwrap(), bytes);
        }
    }
}

#[test]
fn a_file_that_was_lengthened_with_zeros_is_torn() {
    let folder = TempDir::new().unwrap();
    let mut bytes = sample(folder.path());
    bytes.extend([0; 5_000]);
    fs::write(folder.path().join(LOG_NAME), &bytes).unwrap();
    assert_eq!(open(folder.path()).unwrap().accepted(), 5);
}

#[test]
fn a_file_on_its_way_is_forgotten() {
    let folder = TempDir::new().unwrap();
    sample(folder.path());
    fs::write(folder.path().join(NEW_NAME), "half a file").unwrap();
    assert_eq!(open(folder.path()).unwrap().accepted(), 5);
    assert!(!folder.path().join(NEW_NAME).exists());
}

#[derive(Debug, Clone)]
enum Step {
    Append(u64),
    Seal,
    Acknowledge,
    Compact,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1_u64..6).prop_map(Step::Append),
        Just(Step::Seal),
        Just(Step::Acknowledge),
        Just(Step::Compact),
        Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever is done to it, a spool is a queue whose batches keep their numbers.
    #[test]
    fn a_spool_is_a_queue(steps in steps()) {
        let folder = TempDir::new().unwrap();
        let mut spool = Some(open(folder.path()).unwrap());
        let (mut queue, mut next, mut seq) = (VecDeque::new(), 0, 0);
        let mut sealed: Option<Vec<Bytes>> = None;
        let mut is_new_life = true;
        for step in steps {
            let open_spool = spool.as_mut().unwrap();
            match step {
                Step::Append(count) => {
                    append(open_spool, next..next + count);
                    queue.extend(next..next + count);
                    next += count;
                }
                Step::Seal => {
                    let batch = open_spool.next_batch().unwrap();
                    if let Some(batch) = batch {
                        if sealed.is_none() && is_new_life {
                            (seq, is_new_life) = (0, false);
                        }
                        prop_assert_eq!(batch.seq, seq);
                        let first: Vec<Bytes> = queue.iter().take(batch.entries.len()).copied().map(entry).collect();
                        prop_assert_eq!(&batch.entries, &first);
                        if let Some(sealed) = &sealed {
                            prop_assert_eq!(&batch.entries, sealed);
                        }
                        sealed = Some(batch.entries);
                    } else {
                        prop_assert!(queue.is_empty());
                    }
                }
                Step::Acknowledge => if let Some(sealed) = sealed.take() {
                    open_spool.acknowledge().unwrap();
                    queue.drain(..sealed.len());
                    seq += 1;
                },
                Step::Compact => open_spool.compact().unwrap(),
                Step::Reopen => {
                    drop(spool.take());
                    spool = Some(open(folder.path()).unwrap());
                    is_new_life = true;
                }
            }
            let open_spool = spool.as_ref().unwrap();
            prop_assert_eq!(open_spool.accepted(), next);
            prop_assert_eq!(open_spool.acknowledged(), next - u64::try_from(queue.len()).unwrap());
        }
    }
}
