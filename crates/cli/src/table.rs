//! Lists for people: columns below each other, and how long ago things were.

use std::time::SystemTime;

const COLUMN_GAP: &str = "  ";

/// Columns as wide as their widest cell; nothing after the last one.
pub(crate) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = width(column).saturating_sub(cell.chars().count());
            line.push_str(cell);
            line.push_str(&" ".repeat(padding));
            line.push_str(COLUMN_GAP);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The largest whole unit: `5s`, `3m`, `2h`, `4d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

pub(crate) fn unix_seconds_now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [0, 59, 60, 3599, 3600, 86_399, 86_400, 900_000].map(age);
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "10d"]);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [
            ["a", "b", "c", "d", "e", "f"],
            ["long name", "-", "-", "-", "-", "1s"],
        ]
        .map(|row| row.map(str::to_owned));
        assert_eq!(
            table(&rows),
            "a          b  c  d  e  f\nlong name  -  -  -  -  1s\n"
        );
    }
}
