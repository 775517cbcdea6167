// What the TypeScript servers called corner_… have in common: the same tools as in
// corner_py1.py, as far as they need no SDK. Everything here is plain JSON.

import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

// The TypeScript clients lose progress that comes in one read with the answer.
const PAUSE_MILLISECONDS = 50
// Over HTTP a cancellation may be overtaken by the question what became of the call. The TypeScript
// SDKs wait a minute for the answer to that.
const PATIENCE_MILLISECONDS = 50_000
const PIXEL = 'iVBORw0KGgo='
const NUMBERS = { a: { type: 'integer' }, b: { type: 'integer' } }

export const [NAME, TRANSPORT, PORT] = process.argv.slice(2)
export const NOTE = `note://${NAME}/counter`
export const BYTES = `note://${NAME}/bytes`
export const CAPABILITIES = {
  tools: { listChanged: true },
  resources: { subscribe: true },
  prompts: {},
  logging: {},
}
export const FORM = {
  message: 'Who are you?',
  requestedSchema: {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer' }, agreed: { type: 'boolean' } },
    required: ['name', 'age', 'agreed'],
  },
}
export const ADDRESS = { message: 'Go there.', url: 'http://[::1]/' }
export const SAMPLE = {
  messages: [{ role: 'user', content: { type: 'text', text: 'Say something.' } }],
  maxTokens: 10,
}
export const RESOURCES = [{ uri: NOTE, name: 'note' }, { uri: BYTES, name: 'bytes' }]
export const PROMPTS = [{ name: 'greet', arguments: [{ name: 'name', required: true }] }]
export const COMPLETION = { completion: { values: ['Ada', 'Alan'] } }

const added = []

export const text = (words) => ({ content: [{ type: 'text', text: words }] })

export const filledIn = ({ name, age, agreed }) =>
  `${name}, ${age}, ${agreed ? 'True' : 'False'}`

/** The tools; those in `absent` the SDK has no words for. */
export function tools(absent = []) {
  const names = [
    'fail', 'hang', 'how_it_ended', 'ask', 'visit', 'detour', 'think', 'look', 'shout', 'change',
    'draw', 'speak', 'point',
  ]
  const plain = { type: 'object' }
  const numbers = { type: 'object', properties: NUMBERS }
  const sum = { type: 'object', properties: { result: { type: 'integer' } } }
  const structured = absent.includes('structured') ? {} : { outputSchema: sum }
  return [
    { name: 'add', inputSchema: numbers, ...structured },
    { name: 'count', inputSchema: { type: 'object', properties: { to: { type: 'integer' } } } },
    ...names.filter((name) => !absent.includes(name)).map((name) => ({ name, inputSchema: plain })),
    ...added.map((name) => ({ name, inputSchema: numbers })),
  ]
}

/**
 * Calls a tool. `tell` has what differs: progress(numbers), log(level, words), changed(), the
 * error elsewhere(), and asks, by the name of the tool.
 */
export async function call({ name, arguments: given }, tell, signal) {
  switch (name) {
    case 'add': {
      const result = given.a + given.b
      return { ...text(String(result)), ...(tell.structured && { structuredContent: { result } }) }
    }
    case 'fail':
      return { ...text('canned failure'), isError: true }
    case 'count':
      for (let number = 1; number <= given.to; number++) {
        await tell.progress({ progress: number, total: given.to })
        await sleep(PAUSE_MILLISECONDS)
      }
      return text(`counted to ${given.to}`)
    case 'hang':
      return hang(given, tell, signal)
    case 'how_it_ended':
      return howItEnded(given)
    case 'shout':
      for (const level of ['debug', 'info', 'error']) await tell.log(level, `canned ${level}`)
      return text('shouted')
    case 'change':
      added.push(given.tool)
      await tell.changed()
      return text('changed')
    case 'draw':
      return { content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] }
    case 'speak':
      return { content: [{ type: 'audio', data: PIXEL, mimeType: 'audio/wav' }] }
    case 'point':
      return { content: [{ type: 'resource_link', uri: NOTE, name: 'note' }] }
    case 'detour':
      if (existsSync(given.mark)) return text('arrived')
      writeFileSync(given.mark, '')
      throw tell.elsewhere()
    default:
      return tell.asks[name]()
  }
}

export function read({ uri }) {
  if (uri === NOTE) return { contents: [{ uri, text: String(added.length) }] }
  if (uri === BYTES) return { contents: [{ uri, blob: 'AP8=', mimeType: 'image/png' }] }
  throw new Error(`no resource ${uri}`)
}

export function prompt({ arguments: { name } }) {
  return { messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }] }
}

/** Reports progress once, then waits to be cancelled, and leaves a mark. */
async function hang({ mark }, tell, signal) {
  await tell.progress({ progress: 1 })
  if (!signal.aborted) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  }
  writeFileSync(mark, '')
  return text('never')
}

/** Tells that a call of `hang` was cancelled, when it has been, in whichever process. */
async function howItEnded({ mark }) {
  const deadline = Date.now() + PATIENCE_MILLISECONDS
  while (!existsSync(mark)) {
    if (Date.now() > deadline) throw new Error('it was not cancelled')
    await sleep(PAUSE_MILLISECONDS)
  }
  return text('cancelled')
}
