// Runs checks one after another.

import { isDeepStrictEqual, inspect } from 'node:util'
import { randomUUID } from 'node:crypto'

const CHECK_MS_MAX = 120_000

export const unique = (prefix) => `${prefix}-${randomUUID().slice(0, 8)}`

export function same(found, expected) {
  if (!isDeepStrictEqual(found, expected)) throw new Error(`${inspect(found)} is not ${inspect(expected)}`)
}

export function contains(whole, part) {
  if (!whole.includes(part)) throw new Error(`${inspect(part)} is not in ${inspect(whole)}`)
}

export function holds(condition, otherwise) {
  if (!condition) throw new Error(otherwise)
}

export async function raises(kind, call) {
  try {
    await call()
  } catch (error) {
    if (error instanceof kind) return error
    throw error
  }
  throw new Error(`no ${kind.name} was raised`)
}

/** Waits for a state that the server reaches by itself. */
export async function until(condition, what, seconds = 30) {
  const deadline = Date.now() + seconds * 1000
  while (Date.now() < deadline) {
    if (await condition()) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`not within ${seconds} s: ${what}`)
}

export class Report {
  passed = 0
  failed = 0

  constructor(words) {
    this.wanted = words.filter((word) => !word.startsWith('-'))
    this.unwanted = words.filter((word) => word.startsWith('-')).map((word) => word.slice(1))
  }

  selects(name) {
    if (this.unwanted.some((word) => name.startsWith(word))) return false
    return this.wanted.length === 0 || this.wanted.some((word) => name.startsWith(word))
  }

  async run(name, check, ...args) {
    if (!this.selects(name)) return
    let timer
    const tooLong = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end within ${CHECK_MS_MAX} ms`)), CHECK_MS_MAX)
    })
    try {
      await Promise.race([check(...args), tooLong])
      console.log(`ok ${name}`)
      this.passed += 1
    } catch (error) {
      const reason = `${error?.name ?? 'error'}: ${error?.message ?? error}`.replace(/\s+/g, ' ').slice(0, 400)
      const place = String(error?.stack ?? '').match(/(checks_\w+\.mjs:\d+)/)
      console.log(`FAIL ${name}: ${reason}${place ? ` (${place[1]})` : ''}`)
      this.failed += 1
    } finally {
      clearTimeout(timer)
    }
  }

  finish() {
    console.log(`${this.passed} passed, ${this.failed} failed`)
    // Sockets of the SDK would keep the process alive.
    process.exit(this.failed > 0 || this.passed === 0 ? 1 : 0)
  }
}
