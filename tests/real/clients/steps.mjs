// What the two TypeScript SDK clients have in common: steps in, observations out, canned
// answers. It knows no SDK: everything here is plain JSON. The format is told in
// tests/real/rig.py.

import { parseArgs } from 'node:util'

export const SAMPLE = {
  role: 'assistant',
  model: 'canned-model',
  content: { type: 'text', text: 'canned sample' },
  stopReason: 'endTurn',
}
export const ROOTS = { roots: [{ uri: 'file:///tmp/canned', name: 'canned' }] }
export const CAPABILITIES = {
  sampling: {},
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
}

// Longer than any server takes to notify on any machine, shorter than the patience of a test.
const WAIT_MILLISECONDS_MAX = 120_000

export async function readTask() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { steps: { type: 'string' }, mode: { type: 'string', default: 'auto' } },
  })
  const steps = JSON.parse(values.steps ?? (await readAll(process.stdin)))
  const url = positionals[0].startsWith('http://') ? new URL(positionals[0]) : undefined
  const [command, ...args] = positionals
  return { steps, mode: values.mode, url, server: { command, args, env: process.env } }
}

/** The transport to a target; a URL is one of HTTP+SSE by the custom of how those end. */
export function transportTo(task, { http, sse, stdio }) {
  if (!task.url) return new stdio(task.server)
  return task.url.pathname.endsWith('/sse') ? new sse(task.url) : new http(task.url)
}

async function readAll(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** Writes observations and remembers notifications until somebody waits for them. */
export class Report {
  step = -1
  unclaimed = []
  wake = () => {}

  saw(what, facts) {
    process.stdout.write(JSON.stringify({ saw: what, step: this.step, ...facts }) + '\n')
  }

  notified({ method, params }) {
    this.saw('notified', { method, params })
    this.unclaimed.push({ method, params })
    this.wake()
  }

  /** Waits for a notification that came since the start and was not waited for before. */
  async waitNotification(method, uri) {
    const patience = AbortSignal.timeout(WAIT_MILLISECONDS_MAX)
    // The signal's own timer does not keep the process alive; this one does.
    const alive = setInterval(() => {}, WAIT_MILLISECONDS_MAX)
    while (!this.#claim(method, uri) && !patience.aborted) {
      await new Promise((resolve) => {
        this.wake = resolve
        patience.addEventListener('abort', resolve, { once: true })
      })
    }
    clearInterval(alive)
    this.saw(patience.aborted ? 'missed' : 'waited', { method })
    return !patience.aborted
  }

  #claim(method, uri) {
    const index = this.unclaimed.findIndex(
      (n) => n.method === method && (uri === undefined || n.params?.uri === uri),
    )
    if (index >= 0) this.unclaimed.splice(index, 1)
    return index >= 0
  }
}

/** Runs the steps; an error of the protocol is an observation, anything else ends the run. */
export async function converse(steps, conversation, report) {
  for (const [index, step] of steps.entries()) {
    report.step = index
    try {
      await conversation[step.do](step)
    } catch (error) {
      if (typeof error.code !== 'number') throw error
      const { code, data } = error
      report.saw('error', { code, message: error.message.replace(`MCP error ${code}: `, ''), data })
    }
  }
}

/** Accepts; in a form, fills in what is required and nothing else. */
export function elicitationAnswer(params) {
  if (params.mode === 'url') return { action: 'accept' }
  const { properties, required = [] } = params.requestedSchema
  const content = Object.fromEntries(required.map((name) => [name, filledIn(properties[name])]))
  return { action: 'accept', content }
}

function filledIn(schema) {
  if (schema.enum) return schema.enum[0]
  if (schema.oneOf) return schema.oneOf[0].const
  return { string: 'canned', number: 1, integer: 1, boolean: true, array: [] }[schema.type]
}
