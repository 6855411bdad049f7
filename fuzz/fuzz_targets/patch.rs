//! A patch that a model wrote, and the file that it is about.

#![no_main]

use holm_patch::{Contents, apply, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (text, content) = input;
    let Ok(patch) = parse(text) else { return };
    for before in [None, Some(content.to_vec())] {
        let contents: Contents = patch
            .paths_to_read()
            .into_iter()
            .map(|path| (path.to_owned(), before.clone()))
            .collect();
        drop(apply(&patch, &contents));
    }
});
