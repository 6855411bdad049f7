//! Frames of a WebSocket, as a server sends them: passed on until so many bytes of data have gone through.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const CLOSE: u8 = 0x88;
/// Control frames have this bit in their kind; they carry no data.
const CONTROL: u8 = 0x08;
const LENGTH_IN_2_BYTES: u8 = 126;
const LENGTH_IN_8_BYTES: u8 = 127;

/// Passes frames on; the last one is made shorter where it has to be.
pub(super) async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    data_bytes: usize,
) -> io::Result<()> {
    let mut left = data_bytes;
    while left > 0 {
        let kind = from.read_u8().await?;
        let length = match from.read_u8().await? {
            LENGTH_IN_2_BYTES => usize::from(from.read_u16().await?),
            LENGTH_IN_8_BYTES => {
                usize::try_from(from.read_u64().await?).map_err(io::Error::other)?
            }
            length => usize::from(length),
        };
        let mut data = vec![0; length];
        from.read_exact(&mut data).await?;
        if kind & CONTROL == 0 {
            data.truncate(left);
            left -= data.len();
        }
        to.write_all(&frame(kind, &data)).await?;
    }
    Ok(())
}

pub(super) fn close(code: u16) -> Vec<u8> {
    frame(CLOSE, &code.to_be_bytes())
}

fn frame(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    match (u8::try_from(data.len()), u16::try_from(data.len())) {
        (Ok(length), _) if length < LENGTH_IN_2_BYTES => bytes.push(length),
        (_, Ok(length)) => {
            bytes.push(LENGTH_IN_2_BYTES);
            bytes.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            bytes.push(LENGTH_IN_8_BYTES);
            let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend(data);
    bytes
}
